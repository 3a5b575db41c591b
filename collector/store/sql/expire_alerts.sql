-- Lets go of cases that were closed too long ago. Parameter: before_ms (UTC ms).
DELETE FROM alert_cases WHERE closed_at < epoch_ms(CAST($before_ms AS BIGINT));
