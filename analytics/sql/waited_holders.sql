-- Who held GPUs idle while jobs of others waited for GPUs at a workload manager, the most first.
--
-- @param from_ts minute: start of the window
-- @param to_ts minute: end of the window, exclusive
-- @param by text = user: user, account or job
-- @param user text = NULL: only beside what this person waited for
-- @param project text = NULL: only beside what this account's people waited for
-- @mark hours_to rollup_1h
-- @column key text: the user, account or job
-- @column user_name text: whose the job is, or the user
-- @column project text: of the job, or the account
-- @column idle_gpu_hours double (GPU-hours): held with no process on them, or with one that did nothing, in that time
-- @column beside_gpu_hours double (GPU-hours): of these, what others' waiting jobs could have had of them
-- @null key, user_name, project: not known, or of several
WITH taken AS (
    SELECT ts, cluster, partitions, gpu_types, user_name, sum(beside_ms) AS beside_ms
    FROM waits_beside($from_ts, $to_ts, $hours_to, 'resources', false)
    WHERE ($user IS NULL OR user_name = $user) AND ($project IS NULL OR project = $project)
    GROUP BY ALL
), pools AS (
    SELECT ts, cluster, partitions, gpu_types, sum(beside_ms) AS beside_ms FROM taken GROUP BY ALL
), idle AS (
    SELECT *, sum(idle_ms) OVER (PARTITION BY ts, cluster, partitions, gpu_types) AS pool_ms
    FROM idle_steps($from_ts, $to_ts, $hours_to) WHERE idle_ms > 0
), parts AS (
    SELECT
        CASE $by WHEN 'job' THEN i.job WHEN 'account' THEN i.project ELSE i.user_name END AS key,
        CASE WHEN $by <> 'account' THEN i.user_name END AS user_name, CASE WHEN $by <> 'user' THEN i.project END AS project,
        i.idle_ms, i.idle_ms / i.pool_ms * (p.beside_ms - coalesce(t.beside_ms, 0)) AS beside_ms
    FROM idle AS i JOIN pools AS p USING (ts, cluster, partitions, gpu_types)
    LEFT JOIN taken AS t ON t.ts = i.ts AND t.cluster = i.cluster AND t.partitions = i.partitions
        AND t.gpu_types = i.gpu_types AND t.user_name = i.user_name
)
SELECT
    key, user_name, project, sum(idle_ms) / 3600000 AS idle_gpu_hours, sum(beside_ms) / 3600000 AS beside_gpu_hours
FROM parts
GROUP BY ALL
HAVING sum(beside_ms) > 0
ORDER BY beside_gpu_hours DESC, idle_gpu_hours DESC, key
LIMIT 1000;
