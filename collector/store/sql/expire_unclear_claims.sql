-- Lets go of unclear claims that ended too long ago. Parameter: before_ms (UTC ms).
DELETE FROM unclear_claims WHERE to_ts < epoch_ms(CAST($before_ms AS BIGINT));
