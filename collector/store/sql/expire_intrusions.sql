-- Lets go of intrusions that ended too long ago. Parameter: before_ms (UTC ms).
DELETE FROM intrusions WHERE to_ts < epoch_ms(CAST($before_ms AS BIGINT));
