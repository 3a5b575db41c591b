-- The GPU-hours and the energy of each state; together they are the installed time of the window and what was measured in it.
--
-- @param from_ts minute: start of the window
-- @param to_ts minute: end of the window, exclusive
-- @param node text = NULL: only this node
-- @param project text = NULL: only what this project held
-- @param user text = NULL: only what this user held
-- @param model text = NULL: only GPUs of this model
-- @mark hours_to rollup_1h
-- @mark days_to rollup_1d
-- @column state text: free, allocated-empty, held-idle, low-saturation, moderate, good, suspect, withheld or unknown
-- @column gpu_hours double (GPU-hours): time in this state
-- @column bound_gpu_hours double (GPU-hours): of these, in low-saturation, moderate or good by GPU utilization alone, an upper bound
-- @column share_ratio double (ratio): of all of them
-- @column cost double (currency): of gpu_hours
-- @column currency text: of the cost
-- @column energy_kwh double (kWh): used in this state
-- @column energy_known_ratio double (ratio): the part of gpu_hours in which energy was measured; where a row of the roll-up has several states and only some of its time was measured, what was not is split among them by their time
-- @null share_ratio: no hours at all; cost: some of the hours have no price, or currencies differ; energy_kwh: not measured; energy_known_ratio: no hours in this state
WITH of_gpus AS (
    SELECT gpu_id, share_of_device, per_gpu_hour, currency, total_ms, wasted_ms, free_ms AS "free",
        allocated_empty_ms AS "allocated-empty", held_idle_ms AS "held-idle", low_saturation_ms AS "low-saturation",
        moderate_ms AS "moderate", good_ms AS "good", suspect_ms AS "suspect", withheld_ms AS "withheld",
        unknown_ms AS "unknown"
    FROM gpu_rows($from_ts, $to_ts, $hours_to, $days_to, $node, $project, $user, $model)
), states AS (
    UNPIVOT of_gpus ON "free", "allocated-empty", "held-idle", "low-saturation", "moderate", "good", "suspect",
        "withheld", "unknown"
    INTO NAME state VALUE ms
), hours AS (
    SELECT state, sum_hours(ms, share_of_device) AS gpu_hours,
        sum_money(ms, share_of_device, per_gpu_hour, currency) AS cost, one_currency(currency) AS currency
    FROM states GROUP BY state
), measured AS (
    SELECT
        row_number() OVER () AS row_id, * EXCLUDE (holder_id),
        allocated_empty_ms + held_idle_ms - coalesce(wasted_energy_ms, 0) AS wasted_gap_ms,
        free_ms + low_saturation_ms + moderate_ms + good_ms + suspect_ms + withheld_ms + unknown_ms
            - coalesce(state_energy_ms - wasted_energy_ms, 0) AS other_gap_ms
    FROM usage_of($from_ts, $to_ts, $hours_to, $days_to, $project, $user) SEMI JOIN of_gpus USING (gpu_id)
), cells AS (
    SELECT
        gpu_id, row_id, state, ms, mj, state IN ('allocated-empty', 'held-idle') AS is_wasted,
        CASE WHEN is_wasted THEN wasted_gap_ms ELSE other_gap_ms END AS gap_ms
    FROM measured UNPIVOT INCLUDE NULLS ((ms, mj) FOR state IN (
        (free_ms, free_energy_mj) AS 'free', (allocated_empty_ms, allocated_empty_energy_mj) AS 'allocated-empty',
        (held_idle_ms, held_idle_energy_mj) AS 'held-idle', (low_saturation_ms, low_saturation_energy_mj) AS 'low-saturation',
        (moderate_ms, moderate_energy_mj) AS 'moderate', (good_ms, good_energy_mj) AS 'good',
        (suspect_ms, suspect_energy_mj) AS 'suspect', (withheld_ms, withheld_energy_mj) AS 'withheld',
        (unknown_ms, unknown_energy_mj) AS 'unknown'))
), gaps AS (
    SELECT
        row_id, is_wasted, any_value(gap_ms) - coalesce(sum(ms) FILTER (mj IS NULL), 0) AS rest_ms,
        sum(ms) FILTER (mj IS NOT NULL) AS told_ms
    FROM cells GROUP BY ALL
), energy AS (
    SELECT
        gpu_id, state, sum(mj) AS mj,
        sum(CASE WHEN mj IS NOT NULL THEN ms * (1 - greatest(rest_ms, 0) / nullif(told_ms, 0)) END) AS known_ms
    FROM cells JOIN gaps USING (row_id, is_wasted) GROUP BY ALL
), bound AS (
    SELECT state, sum_hours(ms, share_of_device) AS bound_gpu_hours
    FROM measured JOIN of_gpus USING (gpu_id)
    UNPIVOT (ms FOR state IN (
        low_saturation_ms AS 'low-saturation', moderate_ms AS 'moderate', good_ms AS 'good'))
    WHERE rung = 1
    GROUP BY state
), told AS (
    SELECT
        state, sum(mj) / 3600000000.0 AS kwh,
        sum_ratio(coalesce(known_ms, 0), ms, share_of_device) AS energy_known_ratio
    FROM states LEFT JOIN energy USING (gpu_id, state) GROUP BY state
)
SELECT
    s.state, coalesce(gpu_hours, 0.0) AS gpu_hours, coalesce(bound_gpu_hours, 0.0) AS bound_gpu_hours,
    gpu_hours / nullif(sum(gpu_hours) OVER (), 0) AS share_ratio, cost, currency,
    CASE WHEN coalesce(gpu_hours, 0) = 0 THEN coalesce(kwh, 0.0) ELSE kwh END AS energy_kwh,
    energy_known_ratio
FROM (SELECT unnest(['free', 'allocated-empty', 'held-idle', 'low-saturation', 'moderate', 'good', 'suspect',
    'withheld', 'unknown']) AS state, unnest(range(9)) AS place) AS s
LEFT JOIN hours USING (state)
LEFT JOIN bound USING (state)
LEFT JOIN told USING (state)
ORDER BY place;
