-- GPU-hours that a workload manager's accounting says it gave and that no ledger has as given, by a key of its runs; and
-- what is known of their use, which is means over whole runs and no state of any moment.
--
-- They are those of time before a node was measured here, and those of runs that no sample names on a measured node: as
-- many GPUs as the run had there, less those that its own holds name, less those of its person and of somebody unknown
-- whose jobs are told by no number; and never more than nobody held (docs/decisions/0137, 0146).
--
-- @param from_ts instant: start of the window
-- @param to_ts instant: end of the window
-- @param by text = user: user, project, account (the same), partition, qos, cluster, node, job or all
-- @param user text = NULL: only this person's
-- @param project text = NULL: only this account's
-- @param node text = NULL: only on this node
-- @column key text: the user, project or whatever was asked for
-- @column runs bigint: that were there in the window
-- @column gpu_hours double (GPU-hours): given
-- @column beside_gpu_hours double (GPU-hours): of these, on nodes that were measured: ledgers have them as held by nobody
-- @column uncounted_gpu_hours double (GPU-hours): more, in no sum: of such runs, on GPUs that others or somebody unknown held,
--     or that other such runs are said to have had too
-- @column measured_gpu_hours double (GPU-hours): of these, of GPUs with a mean over their run
-- @column used_gpu_hours double (GPU-hours): of the measured ones, times their means: an upper bound
-- @column unused_gpu_hours double (GPU-hours): of the measured ones, of GPUs whose mean is 0: never used
-- @column utilization_ratio double: used over measured
-- @null key: not said, as the node by a manager that does not say where; utilization_ratio: nothing was measured
WITH parts AS (
    SELECT
        row_number() OVER () AS part, manager, number, shown_id, submitted_at, started_at, ended_at, user_name, project, partition, qos,
        cluster, gpus / greatest(len(node_names), 1) AS gpus, utilization_ratio, least(unused_gpus, gpus) / gpus AS unused_ratio,
        least(measured_gpus, gpus) / gpus AS measured_ratio,
        unnest(CASE WHEN len(node_names) = 0 THEN [NULL] ELSE node_names END) AS node  -- not every manager says where
    FROM accounted_runs
    WHERE started_at < $to_ts AND ended_at > $from_ts AND gpus > 0
), named AS (  -- GPUs by what runs call their nodes: that of the run's cluster, or of any where it has none of this name
    SELECT gpu_id, uuid, short_node(node) AS node, installed_from, installed_to FROM gpus
    UNION ALL
    SELECT gpu_id, uuid, split_part(host, '.', 1), installed_from, installed_to FROM gpus WHERE host IS NOT NULL
), apart AS (
    SELECT split_part(host, '.', 1) AS host, lower(cluster) AS cluster, any_value(node) AS node
    FROM gpus WHERE host IS NOT NULL GROUP BY ALL
), here AS (
    SELECT node, min(installed_from) AS since_ts FROM named GROUP BY 1
    UNION ALL SELECT NULL, min(installed_from) FROM gpus  -- of a run that may have been anywhere: since the first GPU
), placed AS (
    SELECT
        parts.* REPLACE (coalesce(apart.node, parts.node) AS node), row_number() OVER () AS place, since_ts,
        short_node(coalesce(apart.node, parts.node)) AS short
    FROM parts
    LEFT JOIN apart ON apart.host = split_part(parts.node, '.', 1) AND apart.cluster = lower(parts.cluster)
    LEFT JOIN here ON here.node IS NOT DISTINCT FROM short_node(coalesce(apart.node, parts.node))
), late AS (  -- what lies in time in which the node was measured
    SELECT
        place, manager, number, shown_id, cluster, user_name, short AS node, gpus, greatest(started_at, since_ts, $from_ts) AS s,
        least(ended_at, $to_ts) AS e
    FROM placed
    WHERE short IS NOT NULL AND since_ts IS NOT NULL AND greatest(started_at, since_ts, $from_ts) < least(ended_at, $to_ts)
), holds AS (
    SELECT
        row_number() OVER () AS hold, gpu_id, g.node, h.user_name, split_part(h.job, ':', 1) AS manager,
        split_part(substr(h.job, strpos(h.job, ':') + 1), '@', 1) AS number,
        nullif(regexp_extract(h.job, '^[^@]*@([^@]*[^0-9@][^@]*)', 1), '') AS cluster, a.from_ts AS s,
        coalesce(a.to_ts, $to_ts) AS e
    FROM allocations AS a JOIN named AS g USING (gpu_id) JOIN holders AS h USING (holder_id)
    WHERE a.from_ts < $to_ts + INTERVAL 10 MINUTE AND (a.to_ts IS NULL OR a.to_ts > $from_ts - INTERVAL 10 MINUTE)
        AND g.node IN (SELECT node FROM late)
), own AS (  -- ten minutes around: labels come and go a scrape or two late, of at most five minutes
    SELECT place, hold, gpu_id, h.s - INTERVAL 10 MINUTE AS s, h.e + INTERVAL 10 MINUTE AS e
    FROM late JOIN holds AS h ON h.node = late.node AND h.manager = late.manager
        AND h.number IN (late.number, late.shown_id)  -- a label may tell 200+1, whose number is 201
        AND h.s - INTERVAL 10 MINUTE < late.e AND h.e + INTERVAL 10 MINUTE > late.s
        AND (h.cluster IS NULL OR lower(h.cluster) = lower(late.cluster))
), lacking AS (  -- but for runs of which each GPU is named all the time, as most are
    SELECT late.* FROM late ANTI JOIN (
        SELECT place FROM own JOIN late USING (place)
        WHERE own.s <= late.s AND own.e >= late.e
        GROUP BY place, late.gpus HAVING count(DISTINCT gpu_id) >= late.gpus
    ) USING (place)
), near AS (  -- a hold under another job's number is no run of these, whoever has it
    SELECT
        holds.*,
        hold NOT IN (SELECT hold FROM own) AND (
            NOT regexp_full_match(number, '[0-9]+([_+.\[].*)?') OR manager NOT IN (SELECT manager FROM lacking)
            -- a label may tell an array's number alone: 4 of 4_2
            OR (node, number) IN (SELECT (node, regexp_extract(shown_id, '^[0-9]+')) FROM lacking)
        ) AS may_be_any
    FROM holds SEMI JOIN lacking USING (node)
), steps AS (
    SELECT node, ts AS a, lead(ts) OVER (PARTITION BY node ORDER BY ts) AS b
    FROM (
        SELECT node, unnest([s, e]) AS ts FROM lacking
        UNION SELECT node, unnest([s, e]) FROM near
        UNION SELECT node, unnest([own.s, own.e]) FROM own JOIN lacking USING (place)
        UNION SELECT node, unnest([installed_from, installed_to]) FROM named WHERE node IN (SELECT node FROM lacking)
    )
    WHERE ts IS NOT NULL
), missed AS (  -- GPUs of each run that its own holds do not name
    SELECT steps.node, a, b, l.place, l.user_name, l.gpus - count(DISTINCT own.gpu_id) AS gpus
    FROM steps JOIN lacking AS l ON l.node = steps.node AND l.s <= a AND l.e >= b
    LEFT JOIN own ON own.place = l.place AND own.s <= a AND own.e >= b
    GROUP BY steps.node, a, b, l.place, l.user_name, l.gpus
    HAVING l.gpus > count(DISTINCT own.gpu_id)
), spells AS (
    SELECT DISTINCT node, a, b FROM missed
), taken AS (  -- by whoever it is, and by somebody unknown under no job's number
    SELECT
        w.node, a, count(DISTINCT gpu_id) AS gpus,
        count(DISTINCT gpu_id) FILTER (user_name IS NULL AND may_be_any) AS nobodys_gpus
    FROM spells AS w JOIN near AS h ON h.node = w.node AND h.s <= a AND h.e >= b
    GROUP BY ALL
), loose AS (
    SELECT w.node, a, user_name, count(DISTINCT gpu_id) AS gpus
    FROM spells AS w JOIN near AS h ON h.node = w.node AND h.s <= a AND h.e >= b
    WHERE user_name IS NOT NULL AND may_be_any
    GROUP BY ALL
), there AS (
    SELECT w.node, a, count(*) AS gpus
    FROM spells AS w JOIN named AS g ON g.node = w.node AND g.installed_from <= a
        AND (g.installed_to IS NULL OR g.installed_to >= b)
    WHERE g.uuid NOT IN (SELECT parent_uuid FROM gpus WHERE parent_uuid IS NOT NULL)
    GROUP BY ALL
), people AS (
    SELECT
        m.node, m.a, m.user_name, sum(m.gpus) AS gpus, greatest(0, sum(m.gpus) - coalesce(any_value(l.gpus), 0)) AS left_gpus
    FROM missed AS m LEFT JOIN loose AS l ON l.node = m.node AND l.a = m.a AND l.user_name = m.user_name
    GROUP BY ALL
), shares AS (
    SELECT
        p.node, p.a, user_name, p.left_gpus / p.gpus AS of_theirs,
        greatest(0, least(
            sum(left_gpus) OVER at_once - coalesce(t.nobodys_gpus, 0), coalesce(i.gpus, 0) - coalesce(t.gpus, 0)
        )) / nullif(sum(left_gpus) OVER at_once, 0) AS of_all
    FROM people AS p LEFT JOIN taken AS t ON t.node = p.node AND t.a = p.a LEFT JOIN there AS i ON i.node = p.node AND i.a = p.a
    WINDOW at_once AS (PARTITION BY p.node, p.a)
), beside AS (
    SELECT place, sum(m.gpus * of_theirs * coalesce(of_all, 0) * (epoch_ms(b) - epoch_ms(m.a))) / 3600000 AS hours,
        sum(m.gpus * of_theirs * (1 - coalesce(of_all, 0)) * (epoch_ms(b) - epoch_ms(m.a))) / 3600000 AS uncounted
    FROM missed AS m JOIN shares AS s ON s.node = m.node AND s.a = m.a AND s.user_name IS NOT DISTINCT FROM m.user_name
    GROUP BY place
), spans AS (
    SELECT
        placed.*, coalesce(beside.hours, 0) AS beside_hours, coalesce(uncounted, 0) AS uncounted,
        greatest(0, epoch_ms(least(ended_at, $to_ts, coalesce(since_ts, $to_ts)))
            - epoch_ms(greatest(started_at, $from_ts))) / 3600000 * gpus + beside_hours AS hours
    FROM placed LEFT JOIN beside USING (place)
    WHERE ($node IS NULL OR node = $node) AND ($user IS NULL OR user_name = $user)
        AND ($project IS NULL OR project = $project)
)
SELECT
    CASE $by WHEN 'user' THEN user_name WHEN 'project' THEN project WHEN 'account' THEN project WHEN 'partition' THEN nullif(partition, '')
        WHEN 'qos' THEN nullif(qos, '') WHEN 'cluster' THEN cluster WHEN 'node' THEN node
        WHEN 'job' THEN concat(manager, ':', number) ELSE 'all' END AS key,
    count(DISTINCT (cluster, number, submitted_at, started_at)) AS runs,
    sum(hours) AS gpu_hours,
    sum(beside_hours) AS beside_gpu_hours,
    sum(uncounted) AS uncounted_gpu_hours,
    sum(hours * measured_ratio) AS measured_gpu_hours,
    coalesce(sum(hours * measured_ratio * utilization_ratio), 0) AS used_gpu_hours,
    sum(hours * unused_ratio) AS unused_gpu_hours,
    CASE WHEN sum(hours * measured_ratio) > 0
        THEN coalesce(sum(hours * measured_ratio * utilization_ratio), 0) / sum(hours * measured_ratio) END
        AS utilization_ratio
FROM spans
WHERE hours > 0 OR uncounted > 0
GROUP BY 1
ORDER BY gpu_hours DESC, key;
