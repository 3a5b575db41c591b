-- Copies that are older than the archive keeps any. Parameter: before_ms (UTC ms). Rows: key.
SELECT "key" FROM archived WHERE NOT is_here AND day < CAST(epoch_ms(CAST($before_ms AS BIGINT)) AS DATE);
