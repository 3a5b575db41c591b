-- Lets go of what was withheld too long ago. Parameter: before_ms (UTC ms).
DELETE FROM withheld WHERE to_ts < epoch_ms(CAST($before_ms AS BIGINT));
