-- Sealed files that are too old and have a copy in the bucket. Parameter: before_ms (UTC ms).
-- Rows: path, the end of its day (UTC ms).
SELECT path, epoch_ms(CAST(day + 1 AS TIMESTAMP))
FROM sealed SEMI JOIN archived USING (path, sealed_at)
WHERE day < CAST(epoch_ms(CAST($before_ms AS BIGINT)) AS DATE);
