-- Lets go of hours of worked_minutes that are too old. Parameter: before_ms (UTC ms).
DELETE FROM worked_minutes WHERE ts < epoch_ms(CAST($before_ms AS BIGINT));
