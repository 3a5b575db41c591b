-- What jobs of a workload manager that ask for GPUs waited for, GPUs or something else, in our words for it.
--
-- @param from_ts minute: start of the window
-- @param to_ts minute: end of the window, exclusive
-- @param user text = NULL: only this person's
-- @param project text = NULL: only this account's
-- @column cause text: resources, limit, reservation, nodes, held, dependency, time, own, never, other or unsaid
-- @column reason text: of a limit which one, of another cause what it is, in the manager's word
-- @column qos text: of a limit, the QOS of the jobs
-- @column account text: of a limit, the account of the jobs
-- @column limit_met text: the limit with its number, a JSON object: name, user, what, most; used is not said
-- @column jobs bigint: that waited so
-- @column waited_gpu_hours double (GPU-hours): GPUs asked for, times how long
-- @null reason, qos, account: no limit; limit_met: no limit, or its number wasn't known
WITH looked AS (
    SELECT manager, cluster, max(ts) AS as_of FROM manager_looks GROUP BY ALL
), spans AS (
    SELECT
        cause, CASE WHEN cause IN ('limit', 'other') THEN reason END AS reason, CASE WHEN cause = 'limit' THEN qos END AS qos,
        CASE WHEN cause = 'limit' THEN project END AS account, limit_met, job,
        gpus * (epoch_ms(least(coalesce(to_ts, as_of), $to_ts)) - epoch_ms(greatest(from_ts, $from_ts))) AS asked_ms
    FROM manager_waits JOIN looked USING (manager, cluster)
    WHERE from_ts < $to_ts AND coalesce(to_ts, as_of) > $from_ts
        AND ($user IS NULL OR user_name = $user) AND ($project IS NULL OR project = $project)
)
SELECT cause, reason, qos, account, limit_met, count(DISTINCT job) AS jobs, sum(asked_ms)::DOUBLE / 3600000 AS waited_gpu_hours
FROM spans
GROUP BY ALL
ORDER BY waited_gpu_hours DESC, cause, reason, qos, account, limit_met;
