-- Lets go of gaps that ended too long ago. Parameter: before_ms (UTC ms).
DELETE FROM gaps WHERE to_ts < epoch_ms(CAST($before_ms AS BIGINT));
