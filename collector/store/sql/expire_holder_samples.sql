-- Lets go of what holders did that is too old. Parameter: before_ms (UTC ms).
DELETE FROM holder_samples WHERE ts < epoch_ms(CAST($before_ms AS BIGINT));
