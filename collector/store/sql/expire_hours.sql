-- Lets go of hours that are too old. Parameter: before_ms (UTC ms).
DELETE FROM rollup_1h WHERE ts < epoch_ms(CAST($before_ms AS BIGINT));
