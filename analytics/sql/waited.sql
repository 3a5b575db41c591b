-- GPU-hours that jobs of a workload manager waited for GPUs, and how many of them GPUs lay idle beside, by a key.
--
-- @param from_ts minute: start of the window
-- @param to_ts minute: end of the window, exclusive
-- @param by text = user: user, account, partition, qos, cluster or all
-- @param user text = NULL: only this person's
-- @param project text = NULL: only this account's
-- @mark hours_to rollup_1h
-- @column key text: the user, account or whatever was asked for
-- @column waited_gpu_hours double (GPU-hours): GPUs asked for, times how long they were waited for
-- @column beside_idle_gpu_hours double (GPU-hours): of these, GPUs that others held idle at the same time would have made up
-- @column beside_own_gpu_hours double (GPU-hours): of these, GPUs that the same person held idle
-- @column beside_free_gpu_hours double (GPU-hours): of these, GPUs that nobody held
-- @null key: not said
WITH waits AS (
    SELECT
        wait_id, CASE $by WHEN 'user' THEN any_value(user_name) WHEN 'account' THEN any_value(project)
            WHEN 'partition' THEN nullif(any_value(partition), '') WHEN 'qos' THEN nullif(any_value(qos), '')
            WHEN 'cluster' THEN any_value(cluster) ELSE 'all' END AS key, sum(asked_ms) AS asked_ms
    FROM waiting_steps($from_ts, $to_ts, 'resources')
    WHERE ($user IS NULL OR user_name = $user) AND ($project IS NULL OR project = $project)
    GROUP BY wait_id
), idle AS (
    SELECT wait_id, sum(others_ms) AS others_ms, sum(beside_ms - others_ms) AS own_ms
    FROM waits_beside($from_ts, $to_ts, $hours_to, 'resources', false) GROUP BY wait_id
), free AS (
    SELECT wait_id, sum(beside_ms) AS free_ms
    FROM waits_beside($from_ts, $to_ts, $hours_to, 'resources', true) GROUP BY wait_id
)
SELECT
    key, sum(asked_ms)::DOUBLE / 3600000 AS waited_gpu_hours, coalesce(sum(others_ms), 0) / 3600000 AS beside_idle_gpu_hours,
    coalesce(sum(own_ms), 0) / 3600000 AS beside_own_gpu_hours, coalesce(sum(free_ms), 0) / 3600000 AS beside_free_gpu_hours
FROM waits LEFT JOIN idle USING (wait_id) LEFT JOIN free USING (wait_id)
GROUP BY key
ORDER BY beside_idle_gpu_hours DESC, waited_gpu_hours DESC, key;
