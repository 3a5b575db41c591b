-- How busy the GPUs of each node were in each step, and how much of them was held; for maps of many GPUs.
-- A step in which nothing is known has no row.
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
-- @column node text: the machine
-- @column ts timestamp: start of the step
-- @column utilization_ratio double (ratio): used over measured time of its GPUs
-- @column held_ratio double (ratio): the part of its GPUs' recorded time in which somebody held them
-- @null utilization_ratio: not measured
SELECT
    g.node, step_start(u.ts, $from_ts, $step_s) AS ts, sum(used_ms) / nullif(sum(measured_ms), 0) AS utilization_ratio,
    sum(held_ms) / nullif(sum(free_ms + allocated_empty_ms + held_idle_ms + low_saturation_ms + moderate_ms + good_ms
        + suspect_ms + unknown_ms), 0) AS held_ratio
FROM usage_of($from_ts, $to_ts, hours_for($step_s, $hours_to), days_for($step_s, $days_to), $project, $user) AS u
JOIN gpus AS g USING (gpu_id)
WHERE ($node IS NULL OR g.node = $node) AND ($model IS NULL OR g.model = $model)
GROUP BY ALL
ORDER BY g.node, ts;
