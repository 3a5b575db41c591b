-- Jobs that labels named without a cluster, and that held GPUs of one cluster alone. No parameters. Columns: job, cluster.
-- What a workload manager tells itself has its own names: those of one that was asked are left.
WITH told AS (
    SELECT a.holder_id, any_value(a.source) AS manager, any_value(g.cluster) AS cluster
    FROM allocations AS a JOIN gpus AS g USING (gpu_id)
    WHERE a.source IN ('kubernetes', 'slurm')
    GROUP BY a.holder_id
    HAVING count(*) = count(g.cluster) AND count(DISTINCT g.cluster) = 1
)
SELECT job, cluster
FROM holders JOIN told USING (holder_id)
WHERE regexp_full_match(job, '(pod|slurm):[^@]*(@[0-9]{9,10})?') AND manager NOT IN (SELECT manager FROM manager_looks);
