-- The processes with the given keys (lists of equal length: nodes, pids, started in UTC ms): id, key, then
-- what is known of each. NULL: not known.
SELECT
    process_id, node, pid, epoch_ms(started_at), user_name, uid, process_name, command, frameworks,
    container, pod, pod_namespace, slurm_job, notebook, parent_pid, environment, unreadable, listens
FROM processes
JOIN (SELECT unnest($nodes) AS node, unnest($pids) AS pid, epoch_ms(CAST(unnest($started) AS BIGINT)) AS started_at)
    USING (node, pid, started_at);
