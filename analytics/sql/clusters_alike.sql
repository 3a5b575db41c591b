-- Two names of clusters whose nodes have the same names: of one cluster, it may be, whose label was renamed or which Slurm calls
-- otherwise.
--
-- @column cluster text: the one name: of a label whose GPUs were measured last before those of the other; or Slurm's
-- @column other text: the other name, of a label
-- @column told_by text: who says the one name: label or slurm
-- @column nodes bigint: how many names of nodes both have
-- @column last_ts timestamp: when a GPU of the one was measured last
-- @column other_last_ts timestamp: when one of the other was
-- @never_null cluster, other, told_by, nodes
-- @null never measured; last_ts: Slurm's own name, which labels no GPU
WITH labelled AS (
    SELECT lower(g.cluster) AS small, min(g.cluster) AS cluster, lower(split_part(coalesce(g.host, g.node), '.', 1)) AS host,
        max(l.ts) AS last_ts
    FROM gpus AS g LEFT JOIN latest AS l USING (gpu_id)
    WHERE g.cluster IS NOT NULL AND g.cut_of IS NULL
    GROUP BY ALL
), whole AS (
    SELECT small, min(cluster) AS cluster, max(last_ts) AS last_ts FROM labelled GROUP BY small
), labels AS (
    SELECT a.small, b.small AS other_small, count(DISTINCT a.host) AS nodes
    FROM labelled AS a JOIN labelled AS b ON b.host = a.host AND b.small <> a.small
    GROUP BY ALL
), slurms AS (
    SELECT m.cluster, b.small AS other_small, count(DISTINCT b.host) AS nodes
    FROM manager_nodes AS m JOIN labelled AS b ON b.host = lower(split_part(m.node, '.', 1))
    WHERE m.manager = 'slurm' AND lower(m.cluster) NOT IN (SELECT small FROM whole)
    GROUP BY ALL
)
SELECT a.cluster, b.cluster AS other, 'label' AS told_by, p.nodes, a.last_ts, b.last_ts AS other_last_ts
FROM labels AS p JOIN whole AS a ON a.small = p.small JOIN whole AS b ON b.small = p.other_small
WHERE a.last_ts < b.last_ts
UNION ALL
SELECT s.cluster, b.cluster, 'slurm', s.nodes, NULL, b.last_ts
FROM slurms AS s JOIN whole AS b ON b.small = s.other_small
ORDER BY told_by, cluster, other;
