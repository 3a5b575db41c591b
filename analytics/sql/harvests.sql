-- What background jobs did in the idle gaps of others, and what that cost those, the latest first: beside the ledger.
--
-- The GPU-hours are the foreground's; these are never added to any state of theirs.
--
-- @param from_ts instant: no stay that ended earlier
-- @column job text: the background job
-- @column foreground text: the job in whose idle gaps it computed
-- @column gpu_uuid text: on which of its GPUs
-- @column from_ms bigint (ms): since when
-- @column to_ms bigint (ms): up to when this was counted
-- @column steps bigint: steps of the background job there
-- @column step_s double (s): GPU time that one of them takes alone
-- @column harvested_gpu_s double (s): steps times step_s
-- @column slowdown_ratio double (ratio): the foreground's steps with others beside it over its control steps, which have nobody
-- @column foreground_steps bigint: steps that the foreground had counted by then; one in 20 is a control
-- @never_null job, foreground, gpu_uuid, from_ms, to_ms, steps
-- @null step_s, harvested_gpu_s, slowdown_ratio: not both measured; foreground_steps: not told
SELECT
    job, foreground, gpu_uuid, epoch_ms(from_at) AS from_ms, epoch_ms(to_at) AS to_ms, steps, work_s AS step_s,
    steps * work_s AS harvested_gpu_s, slowdown_ratio, foreground_steps
FROM harvests
WHERE to_at >= $from_ts
ORDER BY to_at DESC, job, from_at
LIMIT 20000;
