-- The GPU-hours of each state; together they are the installed time of the window.
--
-- @param from_ts minute: start of the window
-- @param to_ts minute: end of the window, exclusive
-- @param node text = NULL: only this node
-- @param project text = NULL: only what this project held
-- @param user text = NULL: only what this user held
-- @param model text = NULL: only GPUs of this model
-- @mark hours_to rollup_1h
-- @mark days_to rollup_1d
-- @column state text: free, allocated-empty, held-idle, low-saturation, moderate, good, suspect or unknown
-- @column gpu_hours double (GPU-hours): time in this state
-- @column share_ratio double (ratio): of all of them
-- @column cost double (currency): of gpu_hours
-- @column currency text: of the cost
-- @null share_ratio: no hours at all; cost: some of the hours have no price, or currencies differ
WITH states AS (
    UNPIVOT (
        SELECT share_of_device, per_gpu_hour, currency, free_ms AS "free", allocated_empty_ms AS "allocated-empty",
            held_idle_ms AS "held-idle", low_saturation_ms AS "low-saturation", moderate_ms AS "moderate",
            good_ms AS "good", suspect_ms AS "suspect", unknown_ms AS "unknown"
        FROM gpu_rows($from_ts, $to_ts, $hours_to, $days_to, $node, $project, $user, $model)
    ) ON "free", "allocated-empty", "held-idle", "low-saturation", "moderate", "good", "suspect", "unknown"
    INTO NAME state VALUE ms
), hours AS (
    SELECT state, sum_hours(ms, share_of_device) AS gpu_hours,
        sum_money(ms, share_of_device, per_gpu_hour, currency) AS cost, one_currency(currency) AS currency
    FROM states GROUP BY state
)
SELECT
    s.state, coalesce(gpu_hours, 0.0) AS gpu_hours,
    gpu_hours / nullif(sum(gpu_hours) OVER (), 0) AS share_ratio, cost, currency
FROM (SELECT unnest(['free', 'allocated-empty', 'held-idle', 'low-saturation', 'moderate', 'good', 'suspect',
    'unknown']) AS state, unnest(range(8)) AS place) AS s
LEFT JOIN hours USING (state)
ORDER BY place;
