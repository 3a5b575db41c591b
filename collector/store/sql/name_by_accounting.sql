-- Gives holders whose user no source told the one person whose accounted runs were where and when they held GPUs, and
-- that person's project; takes both back where that is no longer so. Parameter: jobs (VARCHAR[], as slurm:812 or, as
-- people call it, slurm:200+1).
-- Rows: job of each that changed.
--
-- Every hold of a holder must be that person's: of two people's holds under one id the hours are not told apart.
WITH asked AS (
    SELECT
        holder_id, last_seen, split_part(job, '@', 1) AS told,
        -- slurm:812@lab; digits alone are the second of a number that was used again
        nullif(regexp_extract(job, '^[^@]*@([^@]*[^0-9@][^@]*)', 1), '') AS cluster,
        CASE WHEN project_from IS NULL THEN project END AS told_project
    FROM holders
    WHERE (user_name IS NULL OR user_from = 'accounting')
        AND split_part(job, '@', 1) IN (SELECT unnest($jobs))
), held AS (
    SELECT
        row_number() OVER () AS hold, a.holder_id, asked.cluster, split_part(told, ':', 1) AS manager,
        substr(told, strpos(told, ':') + 1) AS number, split_part(coalesce(g.host, g.node), '.', 1) AS node, a.from_ts,
        -- one that has just begun, or that goes on, counts as far as it was seen
        greatest(coalesce(a.to_ts, last_seen), a.from_ts + INTERVAL 1 MILLISECOND) AS to_ts
    FROM asked JOIN allocations AS a USING (holder_id) JOIN gpus AS g USING (gpu_id)
), runs AS (
    SELECT
        manager, number, shown_id, cluster, user_name, nullif(project, '') AS project, started_at, ended_at,
        list_transform(node_names, lambda name: split_part(name, '.', 1)) AS nodes
    FROM accounted_runs
    WHERE started_at IS NOT NULL
        AND (number IN (SELECT number FROM held) OR shown_id IN (SELECT number FROM held))
), met AS (
    SELECT
        hold, holder_id, user_name, project,
        epoch_ms(held.to_ts) - epoch_ms(held.from_ts) AS held_ms,
        epoch_ms(least(held.to_ts, ended_at)) - epoch_ms(greatest(held.from_ts, started_at)) AS met_ms
    FROM held LEFT JOIN runs ON runs.manager = held.manager AND held.number IN (runs.number, runs.shown_id)
        AND started_at < held.to_ts AND ended_at > held.from_ts
        AND (held.cluster IS NULL OR lower(held.cluster) = lower(runs.cluster))
        AND (len(nodes) = 0 OR list_contains(nodes, node))
), holds AS (
    SELECT
        holder_id, hold, any_value(user_name) AS user_name,
        -- labels outlast a job by a scrape or two, and clocks differ; what is longer than that is another run's
        bool_and(user_name IS NOT NULL) AND count(DISTINCT user_name) = 1 AND 2 * sum(met_ms) > any_value(held_ms)
            AS is_one_persons,
        min(project) AS project, max(project) AS other_project
    FROM met GROUP BY ALL
), found AS (
    SELECT
        holder_id, CASE WHEN is_known THEN user_name END AS user_name,
        CASE WHEN is_known AND project = other_project THEN project END AS project
    FROM (
        SELECT
            holder_id, any_value(user_name) AS user_name, min(project) AS project, max(other_project) AS other_project,
            bool_and(is_one_persons) AND count(DISTINCT user_name) = 1 AS is_known
        FROM holds GROUP BY holder_id
    )
), new AS (
    SELECT
        holder_id, user_name, coalesce(told_project, found.project) AS project,
        CASE WHEN told_project IS NULL AND found.project IS NOT NULL THEN 'accounting' END AS project_from
    FROM found JOIN asked USING (holder_id)
)
UPDATE holders
SET user_name = new.user_name, project = new.project, project_from = new.project_from,
    user_from = CASE WHEN new.user_name IS NOT NULL THEN 'accounting' END
FROM new
WHERE holders.holder_id = new.holder_id
    AND (holders.user_name IS DISTINCT FROM new.user_name OR holders.project IS DISTINCT FROM new.project)
RETURNING holders.job;
