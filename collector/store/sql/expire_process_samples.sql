-- Lets go of process samples that are too old. Parameter: before_ms (UTC ms).
DELETE FROM process_samples WHERE ts < epoch_ms(CAST($before_ms AS BIGINT));
