-- The nodes whose GPUs a workload manager was seen to give out since since_ms (UTC ms), or not to give out. Rows: the
-- name of the source that says so, node as its machine is called.
SELECT DISTINCT a.source, coalesce(g.host, g.node)
FROM allocations AS a JOIN gpus AS g USING (gpu_id)
WHERE a.source IN ('slurm', 'kubernetes', 'ray') AND (a.to_ts IS NULL OR a.to_ts >= epoch_ms(CAST($since_ms AS BIGINT)))
UNION
SELECT coalesce(m.manager, 'slurm'), coalesce(g.host, g.node)
FROM withheld AS w JOIN gpus AS g USING (gpu_id)
LEFT JOIN manager_nodes AS m ON is_managed_node(m.node, m.cluster, g.node, g.host, g.cluster)
WHERE w.to_ts IS NULL OR w.to_ts >= epoch_ms(CAST($since_ms AS BIGINT))
ORDER BY ALL;
