-- Every installed GPU at the newest tick. A GPU whose sample is over two sample widths older than the newest one
-- of all is unknown: nothing says what it does now. An allocation that ends no earlier than the newest sample, as
-- the last ones of an imported past do, still holds.
CREATE MACRO gpus_at_newest_tick(only_node, only_project, only_user, only_model) AS TABLE
WITH newest AS (
    SELECT max(ts) AS as_of FROM latest
), held AS (
    SELECT
        a.gpu_id, string_agg(DISTINCT h.user_name, ', ' ORDER BY h.user_name) AS user_name,
        string_agg(DISTINCT h.project, ', ' ORDER BY h.project) AS project,
        string_agg(DISTINCT h.job, ', ' ORDER BY h.job) AS job,
        string_agg(DISTINCT h.job_name, ', ' ORDER BY h.job_name) AS job_name,
        string_agg(DISTINCT h.framework, ', ' ORDER BY h.framework) AS framework,
        bool_or(only_user IS NULL OR h.user_name = only_user) AS of_user,
        bool_or(only_project IS NULL OR h.project = only_project) AS of_project
    FROM allocations AS a JOIN holders AS h USING (holder_id)
    WHERE a.to_ts IS NULL OR a.to_ts >= (SELECT as_of FROM newest)
    GROUP BY a.gpu_id
)
SELECT
    g.gpu_id, g.uuid, g.node, g.gpu_index, g.model, g.mig_profile, g.share_of_device, g.memory_total_bytes,
    h.gpu_id IS NOT NULL AS is_held, h.user_name, h.project, h.job, h.job_name, h.framework,
    l.* EXCLUDE (gpu_id), n.as_of,
    CASE
        WHEN l.ts IS NULL OR l.ts < n.as_of - to_milliseconds(2 * greatest(l.width_ms, 10000)) THEN 'unknown'
        ELSE gpu_state(
            h.gpu_id IS NOT NULL, l.process_count, l.memory_used_bytes, g.memory_total_bytes, l.utilization_e4,
            l.gpu_utilization_e4, l.graphics_active_e4, l.sm_active_e4, l.power_mw, g.idle_power_mw)
    END AS state
FROM gpus AS g
CROSS JOIN newest AS n
LEFT JOIN latest AS l USING (gpu_id)
LEFT JOIN held AS h ON h.gpu_id = g.gpu_id
WHERE g.installed_to IS NULL
    AND (only_node IS NULL OR g.node = only_node) AND (only_model IS NULL OR g.model = only_model)
    AND (only_user IS NULL OR h.of_user) AND (only_project IS NULL OR h.of_project);
