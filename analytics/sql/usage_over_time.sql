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
-- @column bound_used_gpus double (GPUs): of used_gpus, by GPU utilization alone, an upper bound: less may have been used
-- @column held_used_gpus double (GPUs): of these, by who was given them
-- @column held_unknown_gpus double (GPUs): given to somebody, and not measured, or by counters that contradict each other
-- @column unknown_gpus double (GPUs): not measured
-- @column utilization_ratio double (ratio): used over measured time, whoever held it
-- @column allocated_ratio double (ratio): held over known time
-- @null ratios: nothing was measured in the step
WITH chosen AS (
    SELECT gpu_id, share_of_device, installed_from, installed_to
    FROM gpus
    WHERE ($node IS NULL OR node = $node) AND ($model IS NULL OR model = $model)
), rows AS (
    SELECT
        u.ts, c.share_of_device, sum(free_ms + allocated_empty_ms + held_idle_ms + low_saturation_ms + moderate_ms
            + good_ms + suspect_ms + withheld_ms + unknown_ms)::BIGINT AS rolled_ms,
        sum(held_ms)::BIGINT AS held_ms, sum(used_ms)::BIGINT AS used_ms,
        (sum(used_ms) FILTER (rung = 1))::BIGINT AS bound_used_ms,
        sum(CASE WHEN holder_id IS NULL THEN 0 ELSE used_ms END)::BIGINT AS held_used_ms,
        sum(CASE WHEN holder_id IS NULL THEN 0 ELSE unknown_ms + suspect_ms END)::BIGINT AS held_unknown_ms,
        sum(unknown_ms)::BIGINT AS unknown_ms, sum(measured_ms)::BIGINT AS measured_ms
    FROM usage_of($from_ts, $to_ts, hours_for($step_s, $hours_to), days_for($step_s, $days_to), $project, $user) AS u
    JOIN chosen AS c USING (gpu_id)
    GROUP BY ALL
), rolled AS (
    SELECT step_start(ts, $from_ts, $step_s) AS ts, share_of_device, sum(rolled_ms)::BIGINT AS rolled_ms,
        sum(held_ms)::BIGINT AS held_ms, sum(used_ms)::BIGINT AS used_ms, sum(bound_used_ms)::BIGINT AS bound_used_ms, sum(held_used_ms)::BIGINT AS held_used_ms,
        sum(held_unknown_ms)::BIGINT AS held_unknown_ms, sum(unknown_ms)::BIGINT AS unknown_ms,
        sum(measured_ms)::BIGINT AS measured_ms
    FROM rows
    GROUP BY ALL
), spells AS (
    SELECT
        share_of_device, greatest(installed_from, $from_ts) AS installed_from,
        CASE WHEN installed_to < $to_ts THEN installed_to END AS installed_to, count(*) AS gpus
    FROM chosen
    GROUP BY ALL
), installed AS (
    SELECT s.ts, s.step_ms, share_of_device, sum(gpus * installed_ms(
        s.ts, s.ts + to_milliseconds(s.step_ms), installed_from, installed_to))::BIGINT AS installed_ms
    FROM steps($from_ts, $to_ts, $step_s) AS s, spells
    GROUP BY ALL
), known AS (
    SELECT
        i.ts, i.step_ms, i.share_of_device, coalesce(r.rolled_ms, 0) AS rolled_ms, coalesce(r.held_ms, 0) AS held_ms,
        coalesce(r.used_ms, 0) AS used_ms, coalesce(r.bound_used_ms, 0) AS bound_used_ms, coalesce(r.held_used_ms, 0) AS held_used_ms,
        coalesce(r.held_unknown_ms, 0) AS held_unknown_ms, coalesce(r.measured_ms, 0) AS measured_ms,
        CASE WHEN $project IS NULL AND $user IS NULL
            THEN greatest(0, i.installed_ms - coalesce(r.rolled_ms, 0)) ELSE 0 END AS missing_ms,
        coalesce(r.unknown_ms, 0) AS unknown_ms
    FROM installed AS i
    LEFT JOIN rolled AS r USING (ts, share_of_device)
)
SELECT
    ts, sum((rolled_ms + missing_ms) * share_of_device) / max(step_ms) AS installed_gpus,
    sum(held_ms * share_of_device) / max(step_ms) AS allocated_gpus,
    sum(used_ms * share_of_device) / max(step_ms) AS used_gpus,
    sum(bound_used_ms * share_of_device) / max(step_ms) AS bound_used_gpus,
    sum(held_used_ms * share_of_device) / max(step_ms) AS held_used_gpus,
    sum(held_unknown_ms * share_of_device) / max(step_ms) AS held_unknown_gpus,
    sum((unknown_ms + missing_ms) * share_of_device) / max(step_ms) AS unknown_gpus,
    sum_ratio(used_ms, measured_ms, share_of_device) AS utilization_ratio,
    sum_ratio(held_ms, rolled_ms, share_of_device) AS allocated_ratio
FROM known
GROUP BY ts
ORDER BY ts;
