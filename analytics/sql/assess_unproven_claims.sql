-- GPUs that a launcher says it runs on, and that Fallow did not give it, as said since an instant.
--
-- @param since_ts instant: what was last said before is over
-- @param as_of instant: the instant of the judgement
-- @column gpu_id integer: the GPU's number in the store
-- @column job text: the job whose launcher says so
-- @column user_name text: whose job it is
-- @column from_ms bigint (ms): since when it is said
-- @column last_ms bigint (ms): when it was last said
-- @column why text: what is wrong with it
-- @null never
SELECT
    g.gpu_id, c.job, c.user_name, epoch_ms(c.first_at) AS from_ms, epoch_ms(c.last_at) AS last_ms, c.why
FROM unproven_claims AS c
JOIN gpus AS g ON g.uuid = c.gpu_uuid
WHERE c.last_at >= $since_ts AND c.first_at <= $as_of
ORDER BY g.gpu_id, c.first_at, c.job;
