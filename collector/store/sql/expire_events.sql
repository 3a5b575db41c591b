-- Lets go of events that are too old. Parameter: before_ms (UTC ms).
DELETE FROM events WHERE ts < epoch_ms(CAST($before_ms AS BIGINT));
