-- The newest run of each number that a workload manager gave, of those submitted since. Parameters: manager,
-- since_ms (UTC ms).
SELECT cluster, number, epoch_ms(submitted_at) AS submitted_ms, restarts, user_name, job
FROM manager_jobs
WHERE manager = $manager AND submitted_at >= epoch_ms(CAST($since_ms AS BIGINT))
QUALIFY row_number() OVER (PARTITION BY cluster, number ORDER BY submitted_at DESC, restarts DESC) = 1;
