-- How busy each GPU was in each step, and whether somebody held it. A step in which nothing is known has no row. What a
-- board was before it was cut anew is in its own row.
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
-- @column uuid text: the GPU
-- @column node text: its machine
-- @column gpu_index integer: its index there
-- @column gpu_place text: what it is called there; of a MIG instance with profile and number (0/1g.10gb#7)
-- @column ts timestamp: start of the step
-- @column utilization_ratio double (ratio): used over measured time
-- @column is_upper_bound boolean: some of it was used by GPU utilization alone: less may have been used
-- @column held_ratio double (ratio): the part of the step in which somebody held it
-- @column state text: the state it was in longest
-- @null utilization_ratio: not measured; gpu_index, gpu_place: not known
WITH chosen AS (
    SELECT gpu_id, coalesce(cut_of, uuid) AS uuid, node, gpu_index,
        gpu_place(gpu_index, coalesce(cut_of, uuid), parent_uuid, mig_profile, gpu_instance, compute_instance) AS gpu_place,
        dense_rank() OVER (ORDER BY node, gpu_index, coalesce(cut_of, uuid), gpu_place) AS place
    FROM gpus
    WHERE ($node IS NULL OR node = $node) AND ($model IS NULL OR model = $model)
), drawn AS (
    SELECT DISTINCT place, uuid, node, gpu_index, gpu_place FROM chosen
), cells AS (
    SELECT
        place, step_start(ts, $from_ts, $step_s) AS ts, sum(used_ms)::BIGINT AS used_ms,
        coalesce(bool_or(rung = 1 AND used_ms > 0), false) AS is_upper_bound,
        sum(measured_ms)::BIGINT AS measured_ms, sum(held_ms)::BIGINT AS held_ms, sum(free_ms)::BIGINT AS free_ms,
        sum(allocated_empty_ms)::BIGINT AS allocated_empty_ms, sum(held_idle_ms)::BIGINT AS held_idle_ms,
        sum(low_saturation_ms)::BIGINT AS low_saturation_ms, sum(moderate_ms)::BIGINT AS moderate_ms,
        sum(good_ms)::BIGINT AS good_ms, sum(suspect_ms)::BIGINT AS suspect_ms,
        sum(withheld_ms)::BIGINT AS withheld_ms, sum(unknown_ms)::BIGINT AS unknown_ms
    FROM usage_of($from_ts, $to_ts, hours_for($step_s, $hours_to), days_for($step_s, $days_to), $project, $user)
    JOIN chosen USING (gpu_id)
    GROUP BY ALL
)
SELECT
    g.uuid, g.node, g.gpu_index, g.gpu_place, c.ts, c.used_ms / nullif(c.measured_ms, 0) AS utilization_ratio, c.is_upper_bound,
    c.held_ms / s.step_ms AS held_ratio,
    main_state(free_ms, allocated_empty_ms, held_idle_ms, low_saturation_ms, moderate_ms, good_ms, suspect_ms,
        withheld_ms, unknown_ms) AS state
FROM cells AS c
JOIN drawn AS g USING (place)
JOIN steps($from_ts, $to_ts, $step_s) AS s USING (ts)
ORDER BY g.place, c.ts;
