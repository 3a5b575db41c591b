-- How the holders of some GPUs have used them since they were given them, from the roll-ups.
--
-- Two minutes of activity are needed to count as use: less is a blip, such as the making of a context. A job has
-- computed when one of the GPUs that it had to itself was busy that long; a GPU is busy until the end of the last
-- minute of activity that had another one in the ten minutes before it. What is older than a day is looked at by the hour:
-- until the last minute of activity in the last hour with two such minutes, or its end where its minutes are not known.
-- Where counters contradict each other it may have been busy, and counts so: nobody is told idle by them.
-- An intruder's processes are not counted among the holder's.
--
-- @param as_of instant: the instant
-- @param use_from minute: nobody of interest held anything before this
-- @param gpu_ids counts: the GPUs
-- @mark hours_to rollup_1h
-- @column gpu_id integer: the GPU
-- @column holder_id integer: the holder
-- @column first_used_ms bigint (ms): when the job first computed on a GPU of its own
-- @column busy_until_ms bigint (ms): when this GPU was last busy
-- @column idle_gpu_hours double (GPU-hours): allocated-empty and held-idle since then
-- @column process_started_ms bigint (ms): start of the newest process on the GPU that was seen in the last two hours
-- @column processes_started bigint: processes seen on the GPU that started in the last six hours
-- @column process_arrivals bigint: of a GPU on which no process was seen singly and whose job has not computed: how often
--     in six hours somebody was there after nobody was, by the count of processes or the memory
-- @column longest_life_ms bigint (ms): how long the longest-lived process of the last six hours was seen to live
-- @column listening_unknown boolean: whether the newest processes on the GPU listen could not be read of any of them
-- @null first_used_ms, busy_until_ms: never; process_started_ms, longest_life_ms: no process was seen
WITH claims AS (
    SELECT gpu_id, holder_id, from_ts FROM holds_at($as_of) WHERE gpu_id IN (SELECT unnest($gpu_ids))
), jobs AS (
    SELECT DISTINCT holder_id FROM claims
), held AS (
    SELECT gpu_id, holder_id, min(from_ts) AS from_ts, max(coalesce(to_ts, $as_of)) AS to_ts
    FROM allocations
    WHERE from_ts <= $as_of AND holder_id IN (SELECT holder_id FROM jobs)
    GROUP BY ALL
), shares AS (  -- of those who share a GPU the ledger gives each a part of its time: two minutes are less of it
    SELECT gpu_id, holder_id, min(share) AS share FROM allocations WHERE holder_id IN (SELECT holder_id FROM jobs) GROUP BY ALL
), shared AS (
    SELECT DISTINCT m.gpu_id, m.holder_id
    FROM held AS m
    JOIN allocations AS o ON o.gpu_id = m.gpu_id AND o.holder_id <> m.holder_id
        AND o.from_ts < m.to_ts AND (o.to_ts IS NULL OR o.to_ts > m.from_ts)
), minutes AS (
    SELECT
        u.ts, u.gpu_id, u.holder_id, low_saturation_ms + moderate_ms + good_ms + suspect_ms AS busy_ms,
        allocated_empty_ms + held_idle_ms AS idle_ms, busy_ms - copied_ms AS computed_ms
    FROM rollup_1m AS u
    WHERE u.ts >= time_bucket(INTERVAL 1 HOUR, greatest($use_from, $as_of - INTERVAL 24 HOUR)) AND u.ts < $as_of
        AND u.holder_id IN (SELECT holder_id FROM jobs)
), hours AS (
    SELECT
        u.ts, u.gpu_id, u.holder_id, low_saturation_ms + moderate_ms + good_ms + suspect_ms AS busy_ms,
        allocated_empty_ms + held_idle_ms AS idle_ms, busy_ms - copied_ms AS computed_ms, suspect_ms
    FROM rollup_1h AS u
    WHERE u.ts >= time_bucket(INTERVAL 1 HOUR, $use_from) AND u.ts < $hours_to
        AND u.ts < time_bucket(INTERVAL 1 HOUR, greatest($use_from, $as_of - INTERVAL 24 HOUR))
        AND u.holder_id IN (SELECT holder_id FROM jobs)
), all_rows AS (
    SELECT * FROM minutes UNION ALL SELECT * EXCLUDE (suspect_ms) FROM hours
), computed AS (
    SELECT holder_id, min(first_ts) AS first_ts
    FROM (
        SELECT holder_id, gpu_id, min(ts) FILTER (WHERE computed_ms > 0) AS first_ts, sum(computed_ms) AS computed_ms
        FROM all_rows ANTI JOIN shared USING (gpu_id, holder_id)
        GROUP BY holder_id, gpu_id)
    WHERE computed_ms >= 120000
    GROUP BY holder_id
), busy_minutes AS (
    SELECT gpu_id, holder_id, ts, lag(ts) OVER (PARTITION BY gpu_id, holder_id ORDER BY ts) AS before_ts
    FROM minutes WHERE busy_ms > 0
), last_hours AS (
    SELECT gpu_id, holder_id, max(ts) AS ts
    FROM hours JOIN shares USING (gpu_id, holder_id) WHERE busy_ms >= 120000 * least(1, share)
    GROUP BY ALL
), last_work AS (  -- the minute of that hour in which the work ended, where it is known of each
    SELECT
        l.gpu_id, l.holder_id, l.ts, length(bin(w.worked)) AS worked_minutes,
        least(h.idle_ms, bit_count(w.known >> worked_minutes) * 60000 * least(1, s.share)) AS idle_ms
    FROM last_hours AS l
    JOIN hours AS h ON h.gpu_id = l.gpu_id AND h.holder_id = l.holder_id AND h.ts = l.ts AND h.suspect_ms = 0
    JOIN shares AS s ON s.gpu_id = l.gpu_id AND s.holder_id = l.holder_id
    JOIN worked_minutes AS w ON w.ts = l.ts AND w.gpu_id = l.gpu_id AND w.holder_id = l.holder_id AND w.worked > 0
), busy AS (
    SELECT gpu_id, holder_id, max(until_ts) AS until_ts
    FROM (
        SELECT gpu_id, holder_id, ts + INTERVAL 1 MINUTE AS until_ts
        FROM busy_minutes WHERE ts - before_ts <= INTERVAL 10 MINUTE
        UNION ALL
        SELECT l.gpu_id, l.holder_id, l.ts + to_minutes(coalesce(w.worked_minutes, 60))
        FROM last_hours AS l LEFT JOIN last_work AS w ON w.gpu_id = l.gpu_id AND w.holder_id = l.holder_id)
    GROUP BY ALL
), own_samples AS (
    SELECT gpu_id, process_id, ts
    FROM process_samples ANTI JOIN intrusions USING (gpu_id, process_id)
    WHERE ts > $as_of - INTERVAL 6 HOUR AND ts <= $as_of AND gpu_id IN (SELECT gpu_id FROM claims)
), looks AS (
    SELECT gpu_id, max(ts) AS ts
    FROM own_samples
    WHERE ts > $as_of - INTERVAL 2 HOUR
    GROUP BY gpu_id
), started AS (
    SELECT s.gpu_id, max(p.started_at) AS started_at, bool_and(p.listens IS NULL AND coalesce(len(
            list_filter(p.unreadable, lambda x: x.starts_with('fd:') OR x.starts_with('listens:'))) > 0, false)) AS unheard
    FROM own_samples AS s
    JOIN looks AS k ON k.gpu_id = s.gpu_id AND k.ts = s.ts
    JOIN processes AS p USING (process_id)
    GROUP BY s.gpu_id
), begun AS (
    SELECT
        s.gpu_id, count(DISTINCT s.process_id) FILTER (WHERE p.started_at > $as_of - INTERVAL 6 HOUR) AS processes,
        max(epoch_ms(s.ts) - epoch_ms(p.started_at)) AS longest_life_ms
    FROM own_samples AS s
    JOIN processes AS p USING (process_id)
    GROUP BY s.gpu_id
), unseen AS (  -- only these: all samples of six hours are read for them
    SELECT gpu_id, holder_id FROM claims
    ANTI JOIN computed USING (holder_id) ANTI JOIN begun USING (gpu_id)
    WHERE from_ts <= $as_of - INTERVAL 6 HOUR
), there AS (
    SELECT s.gpu_id, s.ts, process_is_present(
            s.process_count, s.memory_used_bytes, g.memory_total_bytes, g.memory_free_bytes,
            greatest(s.utilization_e4, s.gpu_utilization_e4, s.graphics_active_e4, s.sm_active_e4)) AS is_there
    FROM samples_all AS s JOIN gpus AS g USING (gpu_id)
    WHERE s.ts > $as_of - INTERVAL 6 HOUR AND s.ts <= $as_of AND s.gpu_id IN (SELECT gpu_id FROM unseen)
), arrivals AS (
    SELECT gpu_id, count(*) FILTER (is_there AND NOT was_there) AS processes
    FROM (
        SELECT gpu_id, is_there, lag(is_there) OVER (PARTITION BY gpu_id ORDER BY ts) AS was_there
        FROM there WHERE is_there IS NOT NULL)
    GROUP BY gpu_id
), idle AS (
    SELECT r.gpu_id, r.holder_id, sum(r.idle_ms * g.share_of_device) / 3600000.0 AS idle_gpu_hours
    FROM (
        SELECT gpu_id, holder_id, ts, idle_ms FROM all_rows
        UNION ALL  -- the rest of the hour in which the work ended
        SELECT gpu_id, holder_id, ts + to_minutes(worked_minutes), idle_ms FROM last_work WHERE worked_minutes < 60
    ) AS r
    JOIN gpus AS g USING (gpu_id)
    LEFT JOIN busy AS b ON b.gpu_id = r.gpu_id AND b.holder_id = r.holder_id
    WHERE b.until_ts IS NULL OR r.ts >= b.until_ts
    GROUP BY r.gpu_id, r.holder_id
)
SELECT
    c.gpu_id, c.holder_id, epoch_ms(u.first_ts) AS first_used_ms, epoch_ms(b.until_ts) AS busy_until_ms,
    coalesce(i.idle_gpu_hours, 0.0) AS idle_gpu_hours, epoch_ms(s.started_at) AS process_started_ms,
    coalesce(n.processes, 0) AS processes_started, coalesce(v.processes, 0) AS process_arrivals,
    n.longest_life_ms, coalesce(s.unheard, false) AS listening_unknown
FROM claims AS c
LEFT JOIN computed AS u USING (holder_id)
LEFT JOIN busy AS b ON b.gpu_id = c.gpu_id AND b.holder_id = c.holder_id
LEFT JOIN idle AS i ON i.gpu_id = c.gpu_id AND i.holder_id = c.holder_id
LEFT JOIN started AS s ON s.gpu_id = c.gpu_id
LEFT JOIN begun AS n ON n.gpu_id = c.gpu_id
LEFT JOIN arrivals AS v ON v.gpu_id = c.gpu_id
ORDER BY c.gpu_id, c.holder_id;
