-- Lets go of days that are too old. Parameter: before_ms (UTC ms, a whole day).
DELETE FROM rollup_1d WHERE ts < epoch_ms(CAST($before_ms AS BIGINT));
