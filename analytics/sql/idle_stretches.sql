-- When each job had GPUs and did nothing on any of them for a while, in a window.
--
-- A minute of work counts when another lies within ten minutes of it: less is a blip. What lies between two such
-- minutes, or between the last one and the end of the job, is a stretch; so is what lies before the first one, or all
-- of the window of a job that does not work in it, from where its time to start is over (counted from when it first
-- held anything, which may be long before the window). Of a stretch of which over 5% were not measured, each part in
-- one piece that was measured is a stretch of its own, and the first one bears how long nothing was; the last two
-- minutes may not be rolled up yet.
--
-- Hours stand for their minutes where these are all alike: a GPU of the job worked throughout, or none of them at
-- all, each was its alone, and they were measured. In the other hours worked_minutes tells, and where it has no row the minutes do.
--
-- @param from_ts minute: start of the window
-- @param to_ts minute: end of the window, exclusive
-- @param least_minutes count = 10: shorter ones are left out
-- @param start_limit_s count = 7200: how long a job that has not worked yet is starting up
-- @mark hours_to rollup_1h
-- @column job text: the job's id
-- @column user_name text: whose
-- @column project text: for which project
-- @column kind text: interactive, batch or inference
-- @column gpus double (GPUs): how many it held, shares and MIG instances counted as such
-- @column model text: their model
-- @column from_ms bigint (ms): start
-- @column to_ms bigint (ms): end
-- @column open boolean: it lasted until the end of the window, or until it was not measured, so it is cut short
-- @column first boolean: the job has not worked before it within the window, or it was not measured, so it may have
--     begun earlier
-- @column unstarted boolean: it lies before all work of the job within the window
-- @column worked_after boolean: the job worked after it within the window
-- @column unmeasured_ms bigint (ms): how much of the whole stretch was not measured and is not counted, on its first part
-- @null not known
WITH spells AS (
    SELECT
        holder_id, gpu_id, max(share) AS share, min(from_ts) AS from_ts, max(coalesce(to_ts, $to_ts)) AS to_ts,
        bool_or(to_ts IS NULL OR to_ts >= $to_ts) AS goes_on
    FROM allocations
    WHERE from_ts < $to_ts AND (to_ts IS NULL OR to_ts > $from_ts)
    GROUP BY ALL
), held AS (
    SELECT
        holder_id, count(*) AS devices, sum(share * g.share_of_device) AS gpus, greatest(min(from_ts), $from_ts) AS from_ts,
        least(max(to_ts), $to_ts) AS to_ts, bool_or(goes_on) AS goes_on, min(g.model) AS model
    FROM spells JOIN gpus AS g USING (gpu_id)
    GROUP BY holder_id
), started AS (
    SELECT holder_id, min(from_ts) + to_seconds($start_limit_s) AS ts
    FROM allocations SEMI JOIN held USING (holder_id)
    GROUP BY holder_id
), hours AS (
    SELECT
        ts, gpu_id, holder_id, low_saturation_ms + moderate_ms + good_ms AS work_ms,
        free_ms + allocated_empty_ms + held_idle_ms + work_ms AS own_ms
    FROM rollup_1h
    WHERE ts >= time_bucket(INTERVAL 1 HOUR, $from_ts + INTERVAL 59 MINUTE)
        AND ts < least($hours_to, time_bucket(INTERVAL 1 HOUR, $to_ts))
), divided AS (
    SELECT gpu_id, ts FROM hours GROUP BY ALL HAVING count(*) > 1
), judged AS (
    SELECT
        u.holder_id, u.ts, sum(u.work_ms) AS work_ms, sum(u.own_ms) AS known_ms,
        max(u.work_ms) >= 3600000 OR (
            sum(u.work_ms) = 0 AND count(d.ts) = 0 AND u.ts >= min(h.from_ts)
            AND sum(u.own_ms) >= 0.95 * 3600000 * count(*)) AS alike
    FROM hours AS u JOIN held AS h USING (holder_id) LEFT JOIN divided AS d ON d.gpu_id = u.gpu_id AND d.ts = u.ts
    GROUP BY u.holder_id, u.ts
), unlike AS (
    SELECT
        u.*, m.worked, m.known, count(m.ts) OVER same = count(*) OVER same AS marked
    FROM hours AS u
    SEMI JOIN (SELECT holder_id, ts FROM judged WHERE NOT alike) AS j ON j.holder_id = u.holder_id AND j.ts = u.ts
    LEFT JOIN worked_minutes AS m ON m.ts = u.ts AND m.gpu_id = u.gpu_id AND m.holder_id = u.holder_id
    WINDOW same AS (PARTITION BY u.holder_id, u.ts)
), unmarked AS (
    SELECT DISTINCT gpu_id, ts FROM unlike WHERE NOT marked
), read AS (
    SELECT * FROM rollup_1m
    WHERE ts >= $from_ts AND ts < least($to_ts, time_bucket(INTERVAL 1 HOUR, $from_ts + INTERVAL 59 MINUTE))
    UNION ALL
    SELECT * FROM rollup_1m
    WHERE ts >= greatest(time_bucket(INTERVAL 1 HOUR, $from_ts + INTERVAL 59 MINUTE),
            least($hours_to, time_bucket(INTERVAL 1 HOUR, $to_ts))) AND ts < $to_ts
    UNION ALL
    SELECT m.* FROM rollup_1m AS m SEMI JOIN unmarked AS d ON d.gpu_id = m.gpu_id AND d.ts = date_trunc('hour', m.ts)
), rows AS (
    SELECT
        ts, gpu_id, holder_id, low_saturation_ms + moderate_ms + good_ms AS work_ms,
        free_ms + allocated_empty_ms + held_idle_ms + work_ms AS own_ms, own_ms + suspect_ms + withheld_ms + unknown_ms AS part_ms
    FROM read
), whole AS (
    SELECT gpu_id, ts, sum(part_ms) AS whole_ms FROM rows GROUP BY ALL
), pieces AS (
    SELECT
        u.holder_id, u.ts, u.ts + INTERVAL 1 MINUTE AS end_ts, sum(u.work_ms) AS work_ms,
        sum(u.own_ms * w.whole_ms / nullif(u.part_ms, 0)) AS known_ms
    FROM rows AS u JOIN whole AS w USING (gpu_id, ts)
    ANTI JOIN (
        SELECT holder_id, ts AS hour FROM judged WHERE alike UNION ALL SELECT holder_id, ts FROM unlike WHERE marked
    ) AS j ON j.holder_id = u.holder_id AND j.hour = date_trunc('hour', u.ts)
    WHERE u.holder_id IS NOT NULL
    GROUP BY ALL
    UNION ALL
    SELECT
        holder_id, ts + to_minutes(n) AS ts, ts + to_minutes(n + 1) AS end_ts, sum((worked >> n) & 1) AS work_ms,
        sum((known >> n) & 1) * 60000 AS known_ms
    FROM unlike, range(60) AS minutes(n)
    WHERE marked
    GROUP BY ALL
    UNION ALL
    SELECT holder_id, ts, ts + INTERVAL 1 HOUR AS end_ts, work_ms, known_ms FROM judged WHERE alike
), near AS (
    SELECT
        holder_id, ts, end_ts, lag(end_ts) OVER w AS before_ts, lead(ts) OVER w AS after_ts
    FROM pieces WHERE work_ms > 0
    WINDOW w AS (PARTITION BY holder_id ORDER BY ts)
), busy AS (
    SELECT holder_id, ts, end_ts FROM near
    WHERE end_ts - ts > INTERVAL 1 MINUTE OR ts - before_ts <= INTERVAL 9 MINUTE
        OR after_ts - end_ts <= INTERVAL 9 MINUTE
), between_work AS (
    SELECT
        b.holder_id, b.end_ts AS from_ts,
        coalesce(lead(b.ts) OVER (PARTITION BY b.holder_id ORDER BY b.ts), h.to_ts) AS to_ts,
        lead(b.ts) OVER (PARTITION BY b.holder_id ORDER BY b.ts) IS NULL AND h.goes_on AS open, false AS first, false AS unstarted,
        lead(b.ts) OVER (PARTITION BY b.holder_id ORDER BY b.ts) IS NOT NULL AS worked_after
    FROM busy AS b JOIN held AS h USING (holder_id)
), before_work AS (
    SELECT
        h.holder_id, greatest(h.from_ts, s.ts) AS from_ts, coalesce(min(b.ts), h.to_ts) AS to_ts,
        min(b.ts) IS NULL AND h.goes_on AS open, true AS first, true AS unstarted, min(b.ts) IS NOT NULL AS worked_after
    FROM held AS h JOIN started AS s USING (holder_id) LEFT JOIN busy AS b USING (holder_id)
    GROUP BY h.holder_id, h.from_ts, h.to_ts, h.goes_on, s.ts
), stretches AS (
    SELECT * FROM between_work UNION ALL SELECT * FROM before_work WHERE to_ts > from_ts
), measured AS (
    SELECT
        s.holder_id, s.from_ts,
        sum(m.known_ms * least(1.0, epoch_ms(m.end_ts - s.from_ts) / epoch_ms(m.end_ts - m.ts))) AS known_ms
    FROM stretches AS s JOIN pieces AS m ON m.holder_id = s.holder_id AND m.end_ts > s.from_ts AND m.ts < s.to_ts
    WHERE s.to_ts - s.from_ts >= to_minutes($least_minutes)
    GROUP BY ALL
), sure AS (
    SELECT
        s.*, m.known_ms >= 0.95 * a.devices * (epoch_ms(s.to_ts) - epoch_ms(s.from_ts) - 120000) AS whole
    FROM stretches AS s
    JOIN held AS a USING (holder_id)
    JOIN measured AS m ON m.holder_id = s.holder_id AND m.from_ts = s.from_ts
), seen AS (  -- the measured pieces of the others; a piece follows the one before, or begins a part
    SELECT
        s.holder_id, s.from_ts AS stretch_ts, s.to_ts AS stretch_to_ts, s.open, s.first, s.unstarted, s.worked_after,
        greatest(p.ts, s.from_ts) AS ts, least(p.end_ts, s.to_ts) AS end_ts,
        coalesce(lag(p.end_ts) OVER w < p.ts, true) AS begins
    FROM sure AS s
    JOIN held AS a USING (holder_id)
    JOIN pieces AS p ON p.holder_id = s.holder_id AND p.end_ts > s.from_ts AND p.ts < s.to_ts
    WHERE NOT s.whole AND p.known_ms >= 0.95 * a.devices * (epoch_ms(p.end_ts) - epoch_ms(p.ts))
    WINDOW w AS (PARTITION BY s.holder_id, s.from_ts ORDER BY p.ts)
), numbered AS (
    SELECT *, sum(begins::INTEGER) OVER (PARTITION BY holder_id, stretch_ts ORDER BY ts) AS part FROM seen
), parts AS (
    SELECT
        holder_id, stretch_ts, stretch_to_ts, min(ts) AS from_ts, max(end_ts) AS to_ts,
        bool_or(open) OR max(end_ts) < stretch_to_ts AS open, bool_or(first) OR min(ts) > stretch_ts AS first,
        bool_or(unstarted) AS unstarted, bool_or(worked_after) AS worked_after
    FROM numbered GROUP BY holder_id, stretch_ts, stretch_to_ts, part
    HAVING max(end_ts) - min(ts) >= to_minutes($least_minutes)
), counted AS (
    SELECT holder_id, from_ts, to_ts, open, first, unstarted, worked_after, 0 AS unmeasured_ms FROM sure WHERE whole
    UNION ALL
    SELECT
        holder_id, from_ts, to_ts, open, first, unstarted, worked_after,
        CASE WHEN row_number() OVER w = 1 THEN epoch_ms(stretch_to_ts) - epoch_ms(stretch_ts)
            - sum(epoch_ms(to_ts) - epoch_ms(from_ts)) OVER (PARTITION BY holder_id, stretch_ts) ELSE 0 END
    FROM parts WINDOW w AS (PARTITION BY holder_id, stretch_ts ORDER BY from_ts)
)
SELECT
    h.job, h.user_name, h.project, h.kind, a.gpus, a.model, epoch_ms(s.from_ts) AS from_ms, epoch_ms(s.to_ts) AS to_ms,
    s.open, s.first, s.unstarted, s.worked_after, s.unmeasured_ms::BIGINT AS unmeasured_ms
FROM counted AS s
JOIN held AS a USING (holder_id)
JOIN holders AS h USING (holder_id)
ORDER BY s.from_ts, h.job;
