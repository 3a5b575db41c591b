-- What a GPU is used like, beside what it does at this tick: who is rarely used works in one look and idles in the next
-- (docs/decisions/0138). As before otherwise; the newest samples are read once.
--
-- rhythm        rarely-used: each of those who hold it now has that finding, open and judged within the hour; NULL: not
--               so, or its newest sample is too old, or contradicts itself
-- rhythm_from   since then at least: the start of the time that was judged, or when it was found first, if that is earlier
-- ticked_at     the newest tick, measured or not
CREATE OR REPLACE MACRO gpus_at_newest_tick(only_node, only_project, only_user, only_model) AS TABLE
WITH newest_samples AS MATERIALIZED (
    FROM latest
), newest AS (
    SELECT max(ts) AS as_of, coalesce((SELECT max(ts) FROM newest_tick), max(ts)) AS ticked_at FROM newest_samples
), rare AS (
    SELECT gpu_id, holder_id, min(least(opened_at, window_from)) AS from_ts
    FROM findings
    WHERE kind = 'rarely-used' AND closed_at IS NULL AND last_seen_at >= (SELECT as_of FROM newest) - INTERVAL 1 HOUR
    GROUP BY gpu_id, holder_id
), held AS (
    SELECT
        a.gpu_id, bool_and(r.gpu_id IS NOT NULL) AS is_rare, max(r.from_ts) AS rare_from, string_agg(DISTINCT h.user_name, ', ' ORDER BY h.user_name) AS user_name,
        string_agg(DISTINCT h.project, ', ' ORDER BY h.project) AS project,
        string_agg(DISTINCT h.job, ', ' ORDER BY h.job) AS job,
        string_agg(DISTINCT h.job_name, ', ' ORDER BY h.job_name) AS job_name,
        string_agg(DISTINCT h.framework, ', ' ORDER BY h.framework) AS framework,
        bool_or(only_user IS NULL OR h.user_name = only_user) AS of_user,
        bool_or(only_project IS NULL OR h.project = only_project) AS of_project
    FROM allocations AS a JOIN holders AS h USING (holder_id)
    LEFT JOIN newest_samples AS l USING (gpu_id)
    LEFT JOIN rare AS r ON r.gpu_id = a.gpu_id AND r.holder_id = a.holder_id
    WHERE a.to_ts IS NULL OR a.to_ts >= (SELECT as_of FROM newest)
        OR (a.to_ts >= l.ts AND a.to_ts <= l.ts + to_milliseconds(l.width_ms))
    GROUP BY a.gpu_id
), out_of_service AS (
    SELECT gpu_id, max(state) AS state, max(reason) AS reason, min(from_ts) AS from_ts FROM withheld WHERE to_ts IS NULL GROUP BY gpu_id
), states AS (
    SELECT
        g.gpu_id, g.uuid, g.node, g.gpu_index, g.model, g.mig_profile, g.share_of_device, g.memory_total_bytes,
        h.gpu_id IS NOT NULL AS is_held, h.is_rare, h.rare_from, h.user_name, h.project, h.job, h.job_name, h.framework,
        l.* EXCLUDE (gpu_id), n.as_of, n.ticked_at, o.state AS withheld, o.reason AS withheld_reason, o.from_ts AS withheld_from,
        CASE
            WHEN l.ts IS NULL OR l.ts < n.as_of - to_milliseconds(2 * greatest(l.width_ms, 10000))
                OR l.ts < n.ticked_at - to_milliseconds(3 * greatest(l.width_ms, 10000)) THEN 'unknown'
            ELSE gpu_state(
                h.gpu_id IS NOT NULL, l.process_count, l.memory_used_bytes, g.memory_total_bytes, g.memory_free_bytes,
                l.utilization_e4, l.gpu_utilization_e4, l.graphics_active_e4, l.sm_active_e4, l.engines_e4, l.traffic_e4,
                l.power_mw, g.idle_power_mw, g.power_limit_mw, g.mig_profile)
        END AS state
    FROM gpus AS g
    CROSS JOIN newest AS n
    LEFT JOIN newest_samples AS l USING (gpu_id)
    LEFT JOIN held AS h ON h.gpu_id = g.gpu_id
    LEFT JOIN out_of_service AS o ON o.gpu_id = g.gpu_id AND h.gpu_id IS NULL
    WHERE g.installed_to IS NULL
        AND (only_node IS NULL OR g.node = only_node) AND (only_model IS NULL OR g.model = only_model)
        AND (only_user IS NULL OR h.of_user) AND (only_project IS NULL OR h.of_project)
)
SELECT * EXCLUDE (is_rare, rare_from) REPLACE (
    CASE
        WHEN withheld = 'unasked' AND state = 'free' THEN 'unknown'
        WHEN withheld <> 'unasked' AND state IN ('free', 'unknown') THEN withheld
        ELSE state
    END AS state),
    CASE WHEN is_rare AND state NOT IN ('unknown', 'suspect') THEN 'rarely-used' END AS rhythm,
    CASE WHEN rhythm IS NOT NULL THEN rare_from END AS rhythm_from
FROM states;
