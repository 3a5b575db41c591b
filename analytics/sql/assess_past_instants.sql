-- When the holds of a past are to be judged, so that what a service would have told of them is found: at their end, and
-- within them when an idle time, a silence, low use or doubtful counters were over. What goes on is not over. Of the holds that may give a
-- finding alone: whoever held a GPU for half an hour, and was idle, hardly busy, in doubt or silent for a while, or
-- whose power fell, or whose job had several GPUs. A hold goes on over a break of ten minutes.
--
-- @param from_ts minute: start of the past
-- @param to_ts minute: its end; holds that go on beyond it have no end in it
-- @column uuid text: the GPU's UUID
-- @column job text: the job's id
-- @column why text: end, idle, low, doubt or silent
-- @column over_ms bigint (ms): when it was over, and when to judge: what was measured up to then counts
-- @column idle_ms bigint (ms): how long it was idle or empty: the hold in all at its end, else until then
-- @column held_from_ms bigint (ms): since when it lasted
-- @null never
WITH marked AS (
    SELECT
        gpu_id, holder_id, from_ts, coalesce(to_ts, $to_ts + INTERVAL 1 DAY) AS to_ts,
        coalesce(from_ts - max(coalesce(to_ts, $to_ts)) OVER (
            PARTITION BY gpu_id, holder_id ORDER BY from_ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
            > INTERVAL 10 MINUTE, true) AS begins
    FROM allocations
    WHERE from_ts < $to_ts AND (to_ts IS NULL OR to_ts > $from_ts)
), spells AS (
    SELECT gpu_id, holder_id, spell, min(from_ts) AS from_ts, max(to_ts) AS to_ts
    FROM (
        SELECT *, sum(begins::INTEGER) OVER (PARTITION BY gpu_id, holder_id ORDER BY from_ts) AS spell FROM marked)
    GROUP BY ALL
    HAVING max(to_ts) - min(from_ts) >= INTERVAL 30 MINUTE
), holds AS (
    SELECT
        s.*, s.to_ts <= $to_ts AND NOT coalesce(still_held(s.to_ts, l.ts, l.width_ms), false) AS is_over,
        s.to_ts - s.from_ts >= INTERVAL 1 HOUR AS is_an_hour
    FROM spells AS s LEFT JOIN latest AS l USING (gpu_id)
), minutes AS (
    SELECT
        h.gpu_id, h.holder_id, h.spell, m.ts, m.allocated_empty_ms + m.held_idle_ms AS idle_ms,
        m.low_saturation_ms + m.moderate_ms + m.good_ms - m.faint_ms + m.suspect_ms > 0 AS is_busy,
        idle_ms + m.faint_ms > 0 AS is_idle, m.allocated_empty_ms > 0 AS is_empty, m.suspect_ms > 0 AS is_suspect,
        m.low_saturation_ms + idle_ms > m.moderate_ms + m.good_ms AS is_little,
        m.unknown_ms > 0 AND idle_ms + m.low_saturation_ms + m.moderate_ms + m.good_ms + m.suspect_ms = 0 AS is_silent,
        m.used_ms, m.energy_mj, m.energy_ms
    FROM rollup_1m AS m
    JOIN holds AS h ON h.gpu_id = m.gpu_id AND h.holder_id = m.holder_id
        AND m.ts >= h.from_ts - INTERVAL 1 MINUTE AND m.ts < h.to_ts
    WHERE m.ts >= $from_ts AND m.ts < $to_ts
), turns AS (
    SELECT
        *, sum(is_busy::INTEGER) OVER spell AS busy_so_far, sum((NOT is_silent)::INTEGER) OVER spell AS seen_so_far,
        sum((is_little AND is_busy)::INTEGER) OVER (spell RANGE BETWEEN INTERVAL 2 HOUR PRECEDING AND CURRENT ROW) AS little,
        sum(is_suspect::INTEGER) OVER (spell RANGE BETWEEN INTERVAL 10 MINUTE PRECEDING AND CURRENT ROW) AS suspect
    FROM minutes
    WINDOW spell AS (PARTITION BY gpu_id, holder_id, spell ORDER BY ts)
), ends AS (  -- the last minutes in which each hold was busy, or measured at all
    SELECT
        gpu_id, holder_id, spell, max(busy_so_far) AS busy_in_all, max(seen_so_far) AS seen_in_all,
        max(ts) FILTER (WHERE NOT is_silent) AS seen_ts
    FROM turns GROUP BY ALL
), quiet AS (
    SELECT
        t.gpu_id, t.holder_id, t.spell, 'idle' AS why, max(t.ts) FILTER (t.is_idle) + INTERVAL 1 MINUTE AS over_ts,
        sum(t.idle_ms) AS idle_ms
    FROM turns AS t JOIN ends AS e USING (gpu_id, holder_id, spell) JOIN holds AS h USING (gpu_id, holder_id, spell)
    WHERE NOT t.is_busy
    GROUP BY t.gpu_id, t.holder_id, t.spell, t.busy_so_far, e.busy_in_all, e.seen_ts, h.is_over
    HAVING (count(*) FILTER (t.is_idle) >= 58 OR count(*) FILTER (t.is_empty) >= 28)
        -- it worked again, or was dark until it ended
        AND (t.busy_so_far < e.busy_in_all OR h.is_over AND max(t.ts) > e.seen_ts + INTERVAL 10 MINUTE)
), silent AS (
    SELECT t.gpu_id, t.holder_id, t.spell, 'silent', max(t.ts) + INTERVAL 1 MINUTE, 0
    FROM turns AS t JOIN ends AS e USING (gpu_id, holder_id, spell)
    WHERE t.is_silent AND t.seen_so_far < e.seen_in_all
    GROUP BY t.gpu_id, t.holder_id, t.spell, t.seen_so_far
    HAVING count(*) >= 10
), late AS (  -- the last of each hold; what lasts until about its last measured minute is not over, or ends with it
    SELECT gpu_id, holder_id, spell, 'low' AS why, max(ts) + INTERVAL 1 MINUTE AS over_ts
    FROM turns WHERE little >= 29 AND is_little AND is_busy GROUP BY ALL
    UNION ALL
    SELECT gpu_id, holder_id, spell, 'doubt', max(ts) + INTERVAL 1 MINUTE
    FROM turns WHERE suspect >= 9 AND is_suspect GROUP BY ALL
), within AS (
    SELECT * FROM quiet
    UNION ALL SELECT * FROM silent
    UNION ALL
    SELECT l.*, (SELECT sum(t.idle_ms) FROM turns AS t
        WHERE (t.gpu_id, t.holder_id, t.spell) = (l.gpu_id, l.holder_id, l.spell) AND t.ts < l.over_ts)
    FROM late AS l JOIN ends AS e USING (gpu_id, holder_id, spell)
    WHERE l.over_ts < e.seen_ts - INTERVAL 10 MINUTE
), sums AS (
    SELECT
        h.gpu_id, h.holder_id, h.spell, sum(t.idle_ms) AS idle_ms,
        -- nobody was at work in the last half hour (of a job that has never worked, after two hours)
        max(t.ts) FILTER (t.is_busy) < h.to_ts - INTERVAL 28 MINUTE
                AND count(*) FILTER (t.is_idle AND t.ts >= h.to_ts - INTERVAL 30 MINUTE) >= 25
            OR count(*) FILTER (t.is_busy) < 2 AND h.to_ts - h.from_ts >= INTERVAL 2 HOUR AND sum(t.idle_ms) > 0
            OR count(*) FILTER (t.is_little AND t.is_busy AND t.ts >= h.to_ts - INTERVAL 2 HOUR) >= 28
                AND h.to_ts - h.from_ts >= INTERVAL 61 MINUTE
            -- rarely used, or started again and again
            OR count(*) FILTER (t.is_idle AND t.ts >= h.to_ts - INTERVAL 1 DAY)
                >= 0.7 * count(*) FILTER (t.ts >= h.to_ts - INTERVAL 1 DAY) AND h.to_ts - h.from_ts >= INTERVAL 4 HOUR
            OR count(*) FILTER (t.is_suspect AND t.ts >= h.to_ts - INTERVAL 10 MINUTE) >= 9
            OR count(*) FILTER (t.is_silent AND t.ts >= h.to_ts - INTERVAL 10 MINUTE) >= 9
            -- as much as a hang's power has to fall
            OR 2 * sum(t.energy_mj) FILTER (t.ts >= h.to_ts - INTERVAL 1 HOUR)
                / nullif(sum(t.energy_ms) FILTER (t.ts >= h.to_ts - INTERVAL 1 HOUR), 0)
                < max(t.energy_mj / nullif(t.energy_ms, 0)) AND h.to_ts - h.from_ts >= INTERVAL 2 HOUR AS is_worth_it
    FROM holds AS h JOIN turns AS t USING (gpu_id, holder_id, spell)
    GROUP BY h.gpu_id, h.holder_id, h.spell, h.from_ts, h.to_ts
), levels AS (  -- of jobs on several GPUs: what each did in its last hour
    SELECT t.gpu_id, t.holder_id, t.spell, h.to_ts, sum(t.used_ms) / count(*) AS used_ms
    FROM turns AS t JOIN holds AS h USING (gpu_id, holder_id, spell)
    WHERE h.is_over AND h.is_an_hour AND t.ts >= h.to_ts - INTERVAL 1 HOUR
    GROUP BY ALL
), uneven AS (
    SELECT DISTINCT a.gpu_id, a.holder_id, a.spell
    FROM levels AS a JOIN levels AS b ON b.holder_id = a.holder_id AND b.to_ts = a.to_ts AND a.used_ms < 0.8 * b.used_ms
), instants AS (
    SELECT h.gpu_id, h.holder_id, h.from_ts, 'end' AS why, h.to_ts AS over_ts, s.idle_ms
    FROM holds AS h JOIN sums AS s USING (gpu_id, holder_id, spell)
    WHERE h.is_over AND (s.is_worth_it OR (h.gpu_id, h.holder_id, h.spell) IN (SELECT (gpu_id, holder_id, spell) FROM uneven))
    UNION ALL
    SELECT h.gpu_id, h.holder_id, h.from_ts, w.why, w.over_ts, w.idle_ms
    FROM within AS w JOIN holds AS h USING (gpu_id, holder_id, spell)
)
SELECT
    g.uuid, h.job, i.why, epoch_ms(i.over_ts) AS over_ms, coalesce(i.idle_ms, 0)::BIGINT AS idle_ms,
    epoch_ms(i.from_ts) AS held_from_ms
FROM instants AS i
JOIN holders AS h USING (holder_id)
JOIN gpus AS g USING (gpu_id)
ORDER BY i.over_ts, i.gpu_id, i.holder_id, i.why;
