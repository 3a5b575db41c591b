-- Sealed days that have no copy in the bucket yet. Parameter: before_ms (UTC ms), whole days before it.
-- Rows: day (YYYY-MM-DD), path, sealed_at, samples, bytes; the oldest first.
SELECT CAST(day AS VARCHAR), path, sealed_at, samples, bytes
FROM sealed ANTI JOIN archived USING (path, sealed_at)
WHERE day < CAST(epoch_ms(CAST($before_ms AS BIGINT)) AS DATE)
ORDER BY day, path;
