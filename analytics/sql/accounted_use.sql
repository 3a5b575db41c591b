-- GPU-hours that a workload manager's accounting says it gave, by a key of its runs, of time in which nothing was
-- measured here; and what is known of their use, which is means over whole runs and no state of any moment.
--
-- @param from_ts instant: start of the window
-- @param to_ts instant: end of the window
-- @param by text = user: user, project, account (the same), partition, qos, cluster, node, job or all
-- @param user text = NULL: only this person's
-- @param project text = NULL: only this account's
-- @param node text = NULL: only on this node
-- @column key text: the user, project or whatever was asked for
-- @column runs bigint: that were there in the window
-- @column gpu_hours double (GPU-hours): given
-- @column measured_gpu_hours double (GPU-hours): of these, of GPUs with a mean over their run
-- @column used_gpu_hours double (GPU-hours): of the measured ones, times their means: an upper bound
-- @column unused_gpu_hours double (GPU-hours): of the measured ones, of GPUs whose mean is 0: never used
-- @column utilization_ratio double: used over measured
-- @null key: not said, as the node by a manager that does not say where; utilization_ratio: nothing was measured
WITH parts AS (
    SELECT
        manager, number, submitted_at, started_at, ended_at, user_name, project, partition, qos, cluster,
        gpus / greatest(len(node_names), 1) AS gpus, utilization_ratio, least(unused_gpus, gpus) / gpus AS unused_ratio,
        least(measured_gpus, gpus) / gpus AS measured_ratio,
        unnest(CASE WHEN len(node_names) = 0 THEN [NULL] ELSE node_names END) AS node  -- not every manager says where
    FROM accounted_runs
    WHERE started_at < $to_ts AND ended_at > $from_ts AND gpus > 0
        AND ($user IS NULL OR user_name = $user) AND ($project IS NULL OR project = $project)
), here AS (
    SELECT split_part(node, '.', 1) AS node, min(installed_from) AS since_ts FROM gpus GROUP BY 1
    UNION ALL SELECT NULL, min(installed_from) FROM gpus  -- of a run that may have been anywhere: since the first GPU
), spans AS (
    SELECT
        parts.*, greatest(0, epoch_ms(least(ended_at, $to_ts, coalesce(since_ts, $to_ts)))
            - epoch_ms(greatest(started_at, $from_ts))) / 3600000 * gpus AS hours
    FROM parts LEFT JOIN here ON here.node IS NOT DISTINCT FROM split_part(parts.node, '.', 1)
    WHERE $node IS NULL OR parts.node = $node
)
SELECT
    CASE $by WHEN 'user' THEN user_name WHEN 'project' THEN project WHEN 'account' THEN project WHEN 'partition' THEN nullif(partition, '')
        WHEN 'qos' THEN nullif(qos, '') WHEN 'cluster' THEN cluster WHEN 'node' THEN node
        WHEN 'job' THEN concat(manager, ':', number) ELSE 'all' END AS key,
    count(DISTINCT (cluster, number, submitted_at, started_at)) AS runs,
    sum(hours) AS gpu_hours,
    sum(hours * measured_ratio) AS measured_gpu_hours,
    coalesce(sum(hours * measured_ratio * utilization_ratio), 0) AS used_gpu_hours,
    sum(hours * unused_ratio) AS unused_gpu_hours,
    CASE WHEN sum(hours * measured_ratio) > 0
        THEN coalesce(sum(hours * measured_ratio * utilization_ratio), 0) / sum(hours * measured_ratio) END
        AS utilization_ratio
FROM spans
WHERE hours > 0
GROUP BY 1
ORDER BY gpu_hours DESC, key;
