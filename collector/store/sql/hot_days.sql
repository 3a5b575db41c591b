-- The days with hot rows before before_ms (UTC ms). Rows: the day's start, UTC ms.
SELECT DISTINCT epoch_ms(CAST(date_trunc('day', ts) AS TIMESTAMP)) AS day_ms
FROM samples
WHERE ts < epoch_ms(CAST($before_ms AS BIGINT))
ORDER BY day_ms;
