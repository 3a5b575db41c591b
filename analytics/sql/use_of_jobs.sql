-- How much some jobs used of their GPUs in each step, and of the memory, from the roll-ups. Of several GPUs of a job
-- the use is over all of them, the memory that of the fullest.
--
-- @param jobs texts: the jobs' ids
-- @param from_ts minute: start of the window
-- @param to_ts minute: end of the window, exclusive
-- @param step_s step: length of a step; whole hours and days are read from their roll-ups
-- @mark hours_to rollup_1h
-- @mark days_to rollup_1d
-- @column job text: the job's id
-- @column ts timestamp: start of the step
-- @column utilization_ratio double (ratio): used over measured time
-- @column memory_used_max_ratio double (ratio): the most memory used on one of its GPUs, of what that GPU has
-- @column wasted_ratio double (ratio): of the time that it held its GPUs, held and empty or idle
-- @never_null job, ts
-- @null not measured; a step in which it held no GPU has no row
WITH chosen AS (
    SELECT holder_id, job FROM holders WHERE job IN (SELECT unnest($jobs))
)
SELECT
    c.job, step_start(u.ts, $from_ts, $step_s) AS ts,
    sum_ratio(u.used_ms, u.measured_ms, g.share_of_device) AS utilization_ratio,
    max(u.memory_used_max_bytes / nullif(g.memory_total_bytes, 0)) AS memory_used_max_ratio,
    sum_ratio(u.allocated_empty_ms + u.held_idle_ms, u.held_ms, g.share_of_device) AS wasted_ratio
FROM usage($from_ts, $to_ts, hours_for($step_s, $hours_to), days_for($step_s, $days_to)) AS u
JOIN chosen AS c USING (holder_id)
JOIN gpus AS g USING (gpu_id)
GROUP BY ALL
ORDER BY c.job, ts;
