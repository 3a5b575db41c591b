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
-- @column share_ratio double (ratio): of all of them
-- @column cost double (currency): of gpu_hours
-- @column currency text: of the cost
-- @column energy_kwh double (kWh): used in this state
-- @column energy_known_ratio double (ratio): the part of the hours of which energy is known: of the two wasted states together, or of all others together
-- @null share_ratio: no hours at all; cost: some of the hours have no price, or currencies differ; energy_kwh: not measured; energy_known_ratio: no hours
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
        gpu_id, sum(free_energy_mj) AS "free", sum(allocated_empty_energy_mj) AS "allocated-empty",
        sum(held_idle_energy_mj) AS "held-idle", sum(low_saturation_energy_mj) AS "low-saturation",
        sum(moderate_energy_mj) AS "moderate", sum(good_energy_mj) AS "good", sum(suspect_energy_mj) AS "suspect",
        sum(withheld_energy_mj) AS "withheld", sum(unknown_energy_mj) AS "unknown",
        sum(state_energy_ms) AS state_energy_ms, sum(wasted_energy_ms) AS wasted_energy_ms
    FROM usage_of($from_ts, $to_ts, $hours_to, $days_to, $project, $user) SEMI JOIN of_gpus USING (gpu_id)
    GROUP BY gpu_id
), energy AS (
    SELECT state, sum(mj) / 3600000000.0 AS kwh
    FROM (UNPIVOT measured ON "free", "allocated-empty", "held-idle", "low-saturation", "moderate", "good", "suspect",
        "withheld", "unknown" INTO NAME state VALUE mj)
    GROUP BY state
), known AS (
    SELECT
        sum_ratio(coalesce(wasted_energy_ms, 0), wasted_ms, share_of_device) AS wasted_ratio,
        sum_ratio(coalesce(state_energy_ms - wasted_energy_ms, 0), total_ms - wasted_ms, share_of_device) AS other_ratio
    FROM of_gpus LEFT JOIN measured USING (gpu_id)
)
SELECT
    s.state, coalesce(gpu_hours, 0.0) AS gpu_hours,
    gpu_hours / nullif(sum(gpu_hours) OVER (), 0) AS share_ratio, cost, currency,
    CASE WHEN coalesce(gpu_hours, 0) = 0 THEN coalesce(kwh, 0.0) ELSE kwh END AS energy_kwh,
    CASE WHEN s.state IN ('allocated-empty', 'held-idle') THEN wasted_ratio ELSE other_ratio END AS energy_known_ratio
FROM (SELECT unnest(['free', 'allocated-empty', 'held-idle', 'low-saturation', 'moderate', 'good', 'suspect',
    'withheld', 'unknown']) AS state, unnest(range(9)) AS place) AS s
LEFT JOIN hours USING (state)
LEFT JOIN energy USING (state)
CROSS JOIN known
ORDER BY place;
