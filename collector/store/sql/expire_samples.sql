-- Lets go of hot samples that are too old. Parameter: before_ms (UTC ms).
DELETE FROM samples WHERE ts < epoch_ms(CAST($before_ms AS BIGINT));
