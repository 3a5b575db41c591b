-- GPU-hours of a workload manager's GPUs that nobody held, and what kept them: a reservation, a node out of service,
-- a limit of those who wait, the shape of what is waited for; or nobody waited for them.
--
-- @param from_ts minute: start of the window
-- @param to_ts minute: end of the window, exclusive
-- @mark hours_to rollup_1h
-- @column why text: reserved, drained, down, unasked, limit, resources or nobody
-- @column detail text: the reservation or the node's reason, or the limit in the manager's word
-- @column qos text: of a limit, the QOS of the jobs that wait
-- @column account text: of a limit, their account
-- @column gpu_hours double (GPU-hours): that nobody held, for that
-- @null detail: nothing more is said; qos, account: no limit
WITH pooled AS (
    SELECT g.gpu_id, any_value(g.share_of_device) AS share
    FROM gpus AS g JOIN manager_nodes AS m ON is_managed_node(m.node, m.cluster, g.node, g.host, g.cluster)
    GROUP BY g.gpu_id HAVING count(DISTINCT m.cluster) = 1
), looked AS (
    SELECT max(ts) AS as_of FROM manager_looks
), withheld_parts AS (
    SELECT w.state AS why, nullif(w.reason, '') AS detail,
        (epoch_ms(least(coalesce(to_ts, as_of), $to_ts)) - epoch_ms(greatest(from_ts, $from_ts))) * share AS ms
    FROM withheld AS w JOIN pooled USING (gpu_id) CROSS JOIN looked
    WHERE from_ts < $to_ts AND coalesce(to_ts, as_of) > $from_ts
), free AS (
    SELECT ts, cluster, partitions, gpu_types, sum(free_ms) AS free_ms
    FROM idle_steps($from_ts, $to_ts, $hours_to) WHERE free_ms > 0 GROUP BY ALL
), of_resources AS (
    SELECT ts, cluster, partitions, gpu_types, sum(beside_ms) AS ms
    FROM waits_beside($from_ts, $to_ts, $hours_to, 'resources', true) GROUP BY ALL
), limits AS (
    SELECT ts, cluster, partitions, gpu_types, wait_id, beside_ms,
        sum(beside_ms) OVER (PARTITION BY ts, cluster, partitions, gpu_types) AS all_ms
    FROM waits_beside($from_ts, $to_ts, $hours_to, 'limit', true)
), kinds AS (
    SELECT wait_id, any_value(why) AS reason, any_value(qos) AS qos, any_value(project) AS account
    FROM waiting_steps($from_ts, $to_ts, 'limit') GROUP BY wait_id
), of_limits AS (
    SELECT l.*, l.beside_ms * least(1, greatest(0, f.free_ms - coalesce(r.ms, 0)) / l.all_ms) AS ms
    FROM limits AS l
    JOIN free AS f USING (ts, cluster, partitions, gpu_types)
    LEFT JOIN of_resources AS r USING (ts, cluster, partitions, gpu_types)
    WHERE l.all_ms > 0
), all_parts AS (
    SELECT why, detail, NULL AS qos, NULL AS account, ms FROM withheld_parts
    UNION ALL
    SELECT 'limit', reason, nullif(qos, ''), account, ms FROM of_limits JOIN kinds USING (wait_id)
    UNION ALL
    SELECT 'resources', NULL, NULL, NULL, sum(ms) FROM of_resources
    UNION ALL
    SELECT 'nobody', NULL, NULL, NULL, (SELECT coalesce(sum(free_ms), 0) FROM free)
        - (SELECT coalesce(sum(ms), 0) FROM of_resources) - (SELECT coalesce(sum(ms), 0) FROM of_limits)
)
SELECT why, detail, qos, account, sum(ms)::DOUBLE / 3600000 AS gpu_hours
FROM all_parts
GROUP BY ALL
HAVING sum(ms) > 500
ORDER BY gpu_hours DESC, why, detail, qos, account;
