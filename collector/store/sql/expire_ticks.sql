-- Lets go of the record of ticks that are too old. Parameter: before_ms (UTC ms).
DELETE FROM ticks WHERE ts < epoch_ms(CAST($before_ms AS BIGINT));
