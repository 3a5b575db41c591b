-- The GPU-hours of each state, step by step.
--
-- @param from_ts minute: start of the window
-- @param to_ts minute: end of the window, exclusive
-- @param step_s step: length of a step; whole hours and days are read from their roll-ups
-- @param node text = NULL: only this node
-- @param project text = NULL: only what this project held
-- @param user text = NULL: only what this user held
-- @param model text = NULL: only GPUs of this model
-- @mark hours_to rollup_1h
-- @mark days_to rollup_1d
-- @column ts timestamp: start of the step
-- @column free_gpu_hours double (GPU-hours): in state free
-- @column allocated_empty_gpu_hours double (GPU-hours): held, and no process on it
-- @column held_idle_gpu_hours double (GPU-hours): a process, and at most 1% busy
-- @column low_saturation_gpu_hours double (GPU-hours): busy, under 25%
-- @column moderate_gpu_hours double (GPU-hours): 25 to 50%
-- @column good_gpu_hours double (GPU-hours): at least 50%
-- @column suspect_gpu_hours double (GPU-hours): counters contradict each other
-- @column withheld_gpu_hours double (GPU-hours): held by nobody, on a node that is drained, down or reserved
-- @column unknown_gpu_hours double (GPU-hours): not measured
-- @null never
SELECT
    key AS ts, free_gpu_hours, allocated_empty_gpu_hours, held_idle_gpu_hours, low_saturation_gpu_hours,
    moderate_gpu_hours, good_gpu_hours, suspect_gpu_hours, withheld_gpu_hours, unknown_gpu_hours
FROM ledger_by_step($from_ts, $to_ts, $hours_to, $days_to, $step_s, $node, $project, $user, $model)
ORDER BY ts;
