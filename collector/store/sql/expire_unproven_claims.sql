-- Lets go of claims that were last made too long ago. Parameter: before_ms (UTC ms).
DELETE FROM unproven_claims WHERE last_at < epoch_ms(CAST($before_ms AS BIGINT));
