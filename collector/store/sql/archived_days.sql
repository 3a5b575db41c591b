-- The copies of days that are on this disk no more, of a span. Parameters: from_ms, to_ms (UTC ms, both included).
-- Rows: day (YYYY-MM-DD), key, bytes.
SELECT CAST(day AS VARCHAR), "key", bytes
FROM archived
WHERE NOT is_here AND day BETWEEN CAST(epoch_ms(CAST($from_ms AS BIGINT)) AS DATE)
    AND CAST(epoch_ms(CAST($to_ms AS BIGINT)) AS DATE)
ORDER BY day, "key";
