-- Lets go of minutes that are too old. Parameter: before_ms (UTC ms).
DELETE FROM rollup_1m WHERE ts < epoch_ms(CAST($before_ms AS BIGINT));
