-- Why the jobs of a workload manager wait, over time; what they may have; and what is reserved.
ALTER TABLE manager_jobs ADD COLUMN gpu_type VARCHAR DEFAULT '';     -- asked for, with commas between them; empty: any
ALTER TABLE manager_jobs ADD COLUMN cause VARCHAR;                   -- of the reason, in our words; NULL: it does not wait
ALTER TABLE manager_jobs ADD COLUMN expected_at TIMESTAMP;           -- when its manager expects a waiting one to begin
ALTER TABLE manager_nodes ADD COLUMN gpu_types VARCHAR DEFAULT '';   -- with commas between them

-- An interval in which a run that asks for GPUs waited for one cause, asking for the same.
CREATE TABLE manager_waits (
    manager VARCHAR NOT NULL,
    cluster VARCHAR NOT NULL,
    number VARCHAR NOT NULL,
    submitted_at TIMESTAMP NOT NULL,
    restarts INTEGER NOT NULL,
    job VARCHAR NOT NULL,
    user_name VARCHAR,
    project VARCHAR,
    partition VARCHAR NOT NULL,          -- with commas where it may go into several
    qos VARCHAR NOT NULL,
    reservation VARCHAR NOT NULL,
    gpu_type VARCHAR NOT NULL,
    gpus INTEGER NOT NULL,               -- all tasks of an array together
    cause VARCHAR NOT NULL,
    reason VARCHAR NOT NULL,             -- the manager's word at its beginning
    from_ts TIMESTAMP NOT NULL,
    to_ts TIMESTAMP                      -- NULL: it waits still, as at the cluster's newest look
);

-- What a workload manager has reserved, as it is now.
CREATE TABLE manager_reservations (
    manager VARCHAR NOT NULL,
    cluster VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    node_names VARCHAR[] NOT NULL,
    is_whole BOOLEAN NOT NULL,           -- of its nodes; else of some of their cores
    whose VARCHAR NOT NULL,              -- accounts, users and groups, in words
    starts_at TIMESTAMP,
    ends_at TIMESTAMP
);

-- Minutes up to eight days, hours beyond.
CREATE MACRO beside_step_s(window_from, window_to) AS
    CASE WHEN window_to - window_from <= INTERVAL 8 DAY THEN 60 ELSE 3600 END;

-- GPU-milliseconds asked for and waited for, a row a step and kind of wait, of one cause. Sums of the edges of the
-- intervals: a queue of thousands of jobs is as many rows as it has kinds, not minutes.
CREATE MACRO waiting_steps(window_from, window_to, only_cause) AS TABLE
WITH looked AS (
    SELECT manager, cluster, max(ts) AS as_of FROM manager_looks GROUP BY ALL
), spans AS (
    SELECT
        cluster, partition, gpu_type, user_name, project, qos, CASE WHEN only_cause <> 'resources' THEN reason END AS why,
        gpus, epoch_ms(greatest(from_ts, window_from)) AS s_ms,
        epoch_ms(least(coalesce(to_ts, as_of), window_to)) AS e_ms,
        beside_step_s(window_from, window_to) * 1000 AS step_ms
    FROM manager_waits JOIN looked USING (manager, cluster)
    WHERE cause = only_cause AND from_ts < window_to AND coalesce(to_ts, as_of) > window_from
), kinds AS (
    SELECT *, dense_rank() OVER (ORDER BY cluster, partition, gpu_type, user_name, project, qos, why) AS wait_id,
        s_ms // step_ms * step_ms AS first_ms, e_ms // step_ms * step_ms AS last_ms
    FROM spans WHERE e_ms > s_ms
), edges AS (
    SELECT wait_id, first_ms AS at_ms, gpus * (least(e_ms, first_ms + step_ms) - s_ms) AS once, 0 AS level, step_ms
    FROM kinds
    UNION ALL
    SELECT wait_id, first_ms + step_ms, 0, gpus, step_ms FROM kinds WHERE last_ms > first_ms
    UNION ALL
    SELECT wait_id, last_ms, gpus * (e_ms - last_ms), -gpus, step_ms FROM kinds WHERE last_ms > first_ms
), summed AS (
    SELECT wait_id, at_ms, step_ms, sum(once)::BIGINT AS once, sum(level)::BIGINT AS change FROM edges GROUP BY ALL
), levels AS (
    SELECT wait_id, at_ms, step_ms, once, sum(change) OVER later::BIGINT AS level,
        coalesce(lead(at_ms) OVER later, at_ms + step_ms) AS next_ms
    FROM summed WINDOW later AS (PARTITION BY wait_id ORDER BY at_ms)
), filled AS (
    SELECT wait_id, at_ms, step_ms, once, level,
        unnest(CASE WHEN level > 0 THEN range(at_ms, next_ms, step_ms) ELSE [at_ms] END) AS step_at
    FROM levels
)
SELECT
    make_timestamp(step_at * 1000) AS ts, wait_id, k.*,
    level * step_ms + CASE WHEN step_at = at_ms THEN once ELSE 0 END AS asked_ms
FROM filled JOIN (
    SELECT DISTINCT wait_id, cluster, partition, gpu_type, user_name, project, qos, why FROM kinds
) AS k USING (wait_id)
WHERE level > 0 OR once > 0;

-- GPU-milliseconds held and idle, or held by nobody, a row a step, pool and holder. A pool are the GPUs of nodes in
-- the same partitions with the same types of GPUs. A GPU that is withheld is not free.
CREATE MACRO idle_steps(window_from, window_to, hours_to) AS TABLE
WITH pooled AS (
    SELECT g.gpu_id, any_value(m.cluster) AS cluster, any_value(m.partitions) AS partitions,
        any_value(m.gpu_types) AS gpu_types, any_value(g.share_of_device) AS share
    FROM gpus AS g JOIN manager_nodes AS m ON split_part(g.node, '.', 1) = split_part(m.node, '.', 1)
    GROUP BY g.gpu_id HAVING count(DISTINCT m.cluster) = 1
)
SELECT
    time_bucket(to_seconds(beside_step_s(window_from, window_to)), u.ts, TIMESTAMP '1970-01-01') AS ts,
    cluster, partitions, gpu_types, u.holder_id, any_value(h.job) AS job, any_value(h.user_name) AS user_name,
    any_value(h.project) AS project,
    sum((allocated_empty_ms + held_idle_ms) * share) AS idle_ms, sum(free_ms * share) AS free_ms
FROM usage(window_from, window_to, hours_for(beside_step_s(window_from, window_to), hours_to), TIMESTAMP '1970-01-01') AS u
JOIN pooled USING (gpu_id)
LEFT JOIN holders AS h ON h.holder_id = u.holder_id
WHERE allocated_empty_ms + held_idle_ms + free_ms > 0
GROUP BY ALL;

-- How much of each wait GPUs stood beside, a row a step, wait and pool. What a pool has is shared out among those who
-- wait for its partitions and types, by what they ask for; nobody gets more than that. beside_ms is of all GPUs,
-- others_ms of those that the waiting person does not hold: both add up to at most what there was, and to at most
-- what was asked for.
CREATE MACRO waits_beside(window_from, window_to, hours_to, only_cause, is_free) AS TABLE
WITH waits AS (
    SELECT * FROM waiting_steps(window_from, window_to, only_cause)
), idle AS (
    SELECT ts, cluster, partitions, gpu_types, user_name, CASE WHEN is_free THEN free_ms ELSE idle_ms END AS ms
    FROM idle_steps(window_from, window_to, hours_to)
    WHERE CASE WHEN is_free THEN free_ms ELSE idle_ms END > 0
), pools AS (
    SELECT ts, cluster, partitions, gpu_types, sum(ms) AS pool_ms FROM idle GROUP BY ALL
), fits AS (
    SELECT w.partition, w.gpu_type, p.cluster, p.partitions, p.gpu_types
    FROM (SELECT DISTINCT cluster, partition, gpu_type FROM waits) AS w
    JOIN (SELECT DISTINCT cluster, partitions, gpu_types FROM pools) AS p ON p.cluster = w.cluster
    WHERE list_has_any(string_split(w.partition, ','), string_split(p.partitions, ','))
        AND (w.gpu_type = '' OR list_has_any(string_split(w.gpu_type, ','), string_split(p.gpu_types, ',')))
), offers AS (
    SELECT w.ts, w.wait_id, w.asked_ms, w.user_name, w.project, p.cluster, p.partitions, p.gpu_types, p.pool_ms,
        p.pool_ms * w.asked_ms / sum(w.asked_ms) OVER (PARTITION BY p.ts, p.cluster, p.partitions, p.gpu_types) AS offer_ms
    FROM waits AS w
    JOIN fits AS f ON f.cluster = w.cluster AND f.partition = w.partition AND f.gpu_type = w.gpu_type
    JOIN pools AS p ON p.ts = w.ts AND p.cluster = f.cluster AND p.partitions = f.partitions
        AND p.gpu_types = f.gpu_types
), taken AS (
    SELECT *, offer_ms * least(1, asked_ms / sum(offer_ms) OVER (PARTITION BY ts, wait_id)) AS beside_ms FROM offers
), own AS (
    SELECT ts, cluster, partitions, gpu_types, user_name, sum(ms) AS own_ms
    FROM idle WHERE user_name IS NOT NULL GROUP BY ALL
)
SELECT
    t.ts, t.wait_id, t.cluster, t.partitions, t.gpu_types, t.user_name, t.project, t.pool_ms, t.beside_ms,
    t.beside_ms * (1 - coalesce(own_ms, 0) / pool_ms) AS others_ms
FROM taken AS t
LEFT JOIN own AS o ON o.ts = t.ts AND o.cluster = t.cluster AND o.partitions = t.partitions
    AND o.gpu_types = t.gpu_types AND o.user_name = t.user_name;
