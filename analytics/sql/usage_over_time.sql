-- Average GPU utilization beside the allocated share, step by step.
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
-- @column installed_gpus double (GPUs): there on average; with a project or user, what they held
-- @column allocated_gpus double (GPUs): given to somebody
-- @column used_gpus double (GPUs): GPUs times utilization
-- @column unknown_gpus double (GPUs): not measured
-- @column utilization_ratio double (ratio): used over measured time, whoever held it
-- @column allocated_ratio double (ratio): held over known time
-- @null ratios: nothing was measured in the step
SELECT
    ts, sum(total_ms * share_of_device) / max(step_ms) AS installed_gpus,
    sum(held_ms * share_of_device) / max(step_ms) AS allocated_gpus,
    sum(used_ms * share_of_device) / max(step_ms) AS used_gpus,
    sum(unknown_ms * share_of_device) / max(step_ms) AS unknown_gpus,
    sum_ratio(used_ms, measured_ms, share_of_device) AS utilization_ratio,
    sum_ratio(held_ms, total_ms - missing_ms, share_of_device) AS allocated_ratio
FROM ledger_steps($from_ts, $to_ts, $hours_to, $days_to, $step_s, $node, $project, $user, $model)
GROUP BY ts
ORDER BY ts;
