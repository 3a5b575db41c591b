-- When each workload manager's clusters were looked at last. Rows: manager, cluster, ts.
SELECT manager, cluster, max(ts) FROM manager_looks GROUP BY ALL;
