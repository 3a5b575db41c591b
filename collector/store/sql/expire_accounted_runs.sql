-- Lets go of imported runs that were over too long ago. Parameter: before_ms (UTC ms).
DELETE FROM accounted_runs WHERE ended_at < epoch_ms(CAST($before_ms AS BIGINT));
