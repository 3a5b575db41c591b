-- Every node of a workload manager: its state, its GPUs, and whether anybody measures them here.
--
-- @column cluster text: the manager's cluster
-- @column node text: the manager's name of it
-- @column state text: drained, down, reserved or unasked
-- @column reason text: of the state, for people
-- @column gpus integer (GPUs): that the manager gives out
-- @column given_gpus integer (GPUs): that are given out, by the node's own word
-- @column partitions text: with commas between them
-- @column measured_gpus bigint (GPUs): that a source of ours shows under this node's name, whole or by its first label
-- @column manager text: slurm or kubernetes
-- @never_null cluster, node, measured_gpus, manager
-- @null state: it gets jobs; gpus, given_gpus: not said
SELECT
    m.cluster, m.node, m.state, m.reason, m.gpus, m.given_gpus, m.partitions,
    count(g.gpu_id) AS measured_gpus, m.manager
FROM manager_nodes AS m
LEFT JOIN gpus AS g
    ON g.installed_to IS NULL AND is_managed_node(m.node, m.cluster, g.node, g.host, g.cluster)
GROUP BY ALL
ORDER BY m.cluster, m.node;
