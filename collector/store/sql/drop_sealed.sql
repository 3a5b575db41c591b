-- Forgets sealed files that are too old. Parameter: before_ms (UTC ms).
DELETE FROM sealed WHERE day < CAST(epoch_ms(CAST($before_ms AS BIGINT)) AS DATE);
