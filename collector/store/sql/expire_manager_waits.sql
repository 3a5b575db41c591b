-- Lets go of waits that were over too long ago. Parameter: before_ms (UTC ms).
DELETE FROM manager_waits WHERE to_ts < epoch_ms(CAST($before_ms AS BIGINT));
