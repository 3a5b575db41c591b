-- Lets go of letters that were settled too long ago. Parameter: before_ms (UTC ms).
DELETE FROM alert_letters WHERE settled_at < epoch_ms(CAST($before_ms AS BIGINT));
