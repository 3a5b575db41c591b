-- Whether this store holds real GPUs or simulated ones: never both. One row once it holds any GPU, set with the first.
-- A store that held both before is real: what is simulated in it (source 'simulated') is given to nobody.

CREATE TABLE origin (
    origin VARCHAR NOT NULL,             -- real | simulated
    since TIMESTAMP NOT NULL
);

INSERT INTO origin
SELECT CASE WHEN bool_and(source = 'simulated') THEN 'simulated' ELSE 'real' END, min(installed_from)
FROM gpus
HAVING count(*) > 0;

-- The newest tick there was, whether or not anything was measured in it. Not the latest instant: after the clock was
-- set back it is the tick that came last.
CREATE TABLE newest_tick (ts TIMESTAMP);   -- one row; NULL before the first

INSERT INTO newest_tick SELECT max(ts) FROM ticks;

-- Every installed GPU now. A GPU is unknown when its sample is over two widths older than the newest one of all, and
-- when it is over three widths (30 s at least) older than the newest tick: where a driver does not answer there is no
-- newer sample to be held against, and what was measured before says nothing of now.
-- An allocation that ends no earlier than the newest sample, as the last ones of an imported past do, still holds.
CREATE OR REPLACE MACRO gpus_at_newest_tick(only_node, only_project, only_user, only_model) AS TABLE
WITH newest AS (
    SELECT max(ts) AS as_of, coalesce((SELECT max(ts) FROM newest_tick), max(ts)) AS ticked_at FROM latest
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
        WHEN l.ts IS NULL OR l.ts < n.as_of - to_milliseconds(2 * greatest(l.width_ms, 10000))
            OR l.ts < n.ticked_at - to_milliseconds(3 * greatest(l.width_ms, 10000)) THEN 'unknown'
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
