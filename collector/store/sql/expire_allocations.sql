-- Lets go of allocations that ended too long ago. Parameter: before_ms (UTC ms).
DELETE FROM allocations WHERE to_ts < epoch_ms(CAST($before_ms AS BIGINT));
