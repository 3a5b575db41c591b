-- Lets go of pauses that ended too long ago. Parameter: before_ms (UTC ms).
DELETE FROM checkpoints WHERE ended_at < epoch_ms(CAST($before_ms AS BIGINT));
