-- Which node a workload manager means by a name: where nodes of several clusters have it, that of its own cluster
-- (docs/decisions/0148). Clusters are compared without regard to case.

-- A node's name as managers say it, its first label; and its cluster, where its name bears one (gpu-1.lab@a: gpu-1@a).
CREATE MACRO short_node(node) AS regexp_replace(node, '^([^.@]*)\.[^@]*', '\1');

-- Whether a manager's node is that of a GPU: of one whose name bears its cluster, if it is the manager's own.
CREATE MACRO is_managed_node(managed, manager_cluster, node, host, cluster) AS
    split_part(managed, '.', 1) = split_part(coalesce(host, node), '.', 1)
    AND (host IS NULL OR lower(cluster) = lower(manager_cluster));

-- GPU-milliseconds held and idle, or held by nobody, a row a step, pool and holder. A pool are the GPUs of nodes in
-- the same partitions with the same types of GPUs. A GPU that is withheld is not free.
CREATE OR REPLACE MACRO idle_steps(window_from, window_to, hours_to) AS TABLE
WITH pooled AS (
    SELECT g.gpu_id, any_value(m.cluster) AS cluster, any_value(m.partitions) AS partitions,
        any_value(m.gpu_types) AS gpu_types, any_value(g.share_of_device) AS share
    FROM gpus AS g JOIN manager_nodes AS m ON is_managed_node(m.node, m.cluster, g.node, g.host, g.cluster)
    GROUP BY g.gpu_id HAVING count(DISTINCT m.cluster) = 1
)
SELECT
    time_bucket(to_seconds(beside_step_s(window_from, window_to)), u.ts, TIMESTAMP '1970-01-01') AS ts,
    cluster, partitions, gpu_types, u.holder_id, any_value(h.job) AS job, any_value(h.user_name) AS user_name,
    any_value(h.project) AS project,
    sum((allocated_empty_ms + held_idle_ms) * share) AS idle_ms, sum(free_ms * share) AS free_ms
FROM usage(window_from, window_to, hours_for(beside_step_s(window_from, window_to), hours_to), TIMESTAMP '1970-01-01') AS u
JOIN pooled USING (gpu_id)
LEFT JOIN holders AS h ON h.holder_id = u.holder_id
WHERE allocated_empty_ms + held_idle_ms + free_ms > 0
GROUP BY ALL;
