-- How many rows of a day are hot. Parameters: from_ms, to_ms (UTC ms, half-open).
-- A row: rows, the day (DATE), the widest sample in ms.
SELECT count(*), CAST(epoch_ms(CAST($from_ms AS BIGINT)) AS DATE), max(width_ms)
FROM samples
WHERE ts >= epoch_ms(CAST($from_ms AS BIGINT)) AND ts < epoch_ms(CAST($to_ms AS BIGINT));
