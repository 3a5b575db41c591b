-- Lets go of runs that were over too long ago. Parameter: before_ms (UTC ms).
DELETE FROM manager_jobs WHERE state = 'ended' AND ended_at < epoch_ms(CAST($before_ms AS BIGINT));
