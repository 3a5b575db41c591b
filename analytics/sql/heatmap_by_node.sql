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
-- @column is_upper_bound boolean: some of it was used by GPU utilization alone: less may have been used
-- @column held_ratio double (ratio): the part of its GPUs' recorded time in which somebody held them
-- @column state text: the state that its GPUs were in longest, together
-- @null utilization_ratio: not measured
WITH chosen AS (
    SELECT gpu_id, node, dense_rank() OVER (ORDER BY node)::INTEGER AS node_id
    FROM gpus
    WHERE ($node IS NULL OR node = $node) AND ($model IS NULL OR model = $model)
), cells AS ( -- two integers to group by: names and timestamps cost more than the sums
    SELECT
        node_id, epoch_us(u.ts) // ($step_s::BIGINT * 1000000) AS step, sum(used_ms)::BIGINT AS used_ms,
        coalesce(bool_or(rung = 1 AND used_ms > 0), false) AS is_upper_bound,
        sum(measured_ms)::BIGINT AS measured_ms, sum(held_ms)::BIGINT AS held_ms,
        sum(free_ms)::BIGINT AS free_ms, sum(allocated_empty_ms)::BIGINT AS allocated_empty_ms,
        sum(held_idle_ms)::BIGINT AS held_idle_ms, sum(low_saturation_ms)::BIGINT AS low_saturation_ms,
        sum(moderate_ms)::BIGINT AS moderate_ms, sum(good_ms)::BIGINT AS good_ms, sum(suspect_ms)::BIGINT AS suspect_ms,
        sum(withheld_ms)::BIGINT AS withheld_ms, sum(unknown_ms)::BIGINT AS unknown_ms
    FROM usage_of($from_ts, $to_ts, hours_for($step_s, $hours_to), days_for($step_s, $days_to), $project, $user) AS u
    JOIN chosen USING (gpu_id)
    GROUP BY ALL
)
SELECT
    n.node, greatest($from_ts, make_timestamp(step * $step_s::BIGINT * 1000000)) AS ts,
    used_ms / nullif(measured_ms, 0) AS utilization_ratio, is_upper_bound,
    held_ms / nullif(free_ms + allocated_empty_ms + held_idle_ms + low_saturation_ms + moderate_ms + good_ms + suspect_ms
        + withheld_ms + unknown_ms, 0) AS held_ratio,
    main_state(free_ms, allocated_empty_ms, held_idle_ms, low_saturation_ms, moderate_ms, good_ms, suspect_ms,
        withheld_ms, unknown_ms) AS state
FROM cells
JOIN (SELECT DISTINCT node_id, node FROM chosen) AS n USING (node_id)
ORDER BY n.node, ts;
