-- When the present holders of some GPUs were active on them: seven days of minutes, and the newest 24 hours of them.
--
-- A minute is active when any of its bins was busy, by more than 1%. Active minutes less than ten minutes apart are one
-- spell; what lies between two spells is a silence, and one with ten minutes or more of which it is known that nobody was
-- there is an absence. A holder begins anew with each active minute before which one lies without activity, in a spell too.
-- SMs that are at work at 1% or less are no spell, but as long as they are, and until they end, nothing is silent or idle.
-- The last two minutes may not be rolled up yet. Quiet time is looked at backwards: it reaches to where over 5% of what lies
-- between there and now, and over three minutes (5% of the shortest window of a finding on an idle GPU), was not measured.
--
-- @param as_of instant: the instant
-- @param gpu_ids counts: the GPUs
-- @column gpu_id integer: the GPU
-- @column holder_id integer: the holder
-- @column active_until_ms bigint (ms): end of the newest minute that was active, however little, or in doubt
-- @column known_since_ms double (ms): measured since then
-- @column measured_from_ms bigint (ms): end of the newest time since then that was not measured, as far as that is too much
-- @column silence_p90_ms double (ms): 90th percentile of the silences of seven days
-- @column absence_p90_ms double (ms): 90th percentile of the absences of seven days
-- @column known_ms double (ms): measured in the last 24 hours
-- @column busy_ms double (ms): of that, busy
-- @column spells bigint: of activity in the last 24 hours
-- @column spells_ms double (ms): how long these spells were, together
-- @column begins bigint: how often it began anew in the last 24 hours
-- @column silence_longest_ms bigint (ms): the longest time without any work that ended in the last 24 hours
-- @column busy_ratio double (ratio): mean utilization of the busy minutes of 24 hours, by their busy time
-- @column idle_gpu_hours double (GPU-hours): allocated-empty and held-idle in the last 24 hours, its share of them
-- @null there was none
WITH claims AS (
    SELECT gpu_id, holder_id, from_ts FROM holds_at($as_of) WHERE gpu_id IN (SELECT unnest($gpu_ids))
), split AS (  -- by the clock: of those who share a GPU the ledger gives each a part of each minute
    SELECT
        *, sum(row_ms) OVER (PARTITION BY gpu_id, ts) / nullif(row_ms, 0) AS clock
    FROM (
        SELECT *, free_ms + allocated_empty_ms + held_idle_ms + low_saturation_ms + moderate_ms + good_ms + suspect_ms
            + withheld_ms + unknown_ms AS row_ms
        FROM rollup_1m
        WHERE ts >= $as_of - INTERVAL 7 DAY AND ts < $as_of AND holder_id IS NOT NULL
            AND gpu_id IN (SELECT gpu_id FROM claims))
), minutes AS (
    SELECT
        u.gpu_id, u.holder_id, u.ts, u.faint_ms * clock AS faint_ms,
        (u.low_saturation_ms - u.faint_ms + u.moderate_ms + u.good_ms) * clock AS busy_ms, u.used_ms,
        u.suspect_ms, u.allocated_empty_ms * clock AS empty_ms, empty_ms + u.held_idle_ms * clock AS idle_ms,
        busy_ms + faint_ms + idle_ms + u.free_ms * clock AS known_ms, u.allocated_empty_ms + u.held_idle_ms AS wasted_ms
    FROM split AS u
    JOIN claims AS c ON c.gpu_id = u.gpu_id AND c.holder_id = u.holder_id AND u.ts >= c.from_ts - INTERVAL 1 MINUTE
), so_far AS (
    SELECT
        gpu_id, holder_id, ts, busy_ms, sum(empty_ms) OVER (PARTITION BY gpu_id, holder_id ORDER BY ts) AS empty_so_far_ms
    FROM minutes
), active AS (
    SELECT
        gpu_id, holder_id, ts, ts - lag(ts) OVER turns - INTERVAL 1 MINUTE AS silence,
        empty_so_far_ms - lag(empty_so_far_ms) OVER turns AS empty_ms,
        ts >= $as_of - INTERVAL 24 HOUR AS lately, coalesce(silence >= INTERVAL 10 MINUTE, true) AS begins_spell
    FROM so_far
    WHERE busy_ms > 0
    WINDOW turns AS (PARTITION BY gpu_id, holder_id ORDER BY ts)
), ends AS (  -- where counters contradict each other it may have been active
    SELECT gpu_id, holder_id, max(ts) + INTERVAL 1 MINUTE AS until_ts
    FROM minutes WHERE busy_ms + faint_ms + suspect_ms > 0
    GROUP BY ALL
), silent AS (
    SELECT gpu_id, holder_id, max(epoch_ms(silence)) FILTER (silence >= INTERVAL 1 MINUTE AND lately) AS longest_ms
    FROM (
        SELECT
            gpu_id, holder_id, ts >= $as_of - INTERVAL 24 HOUR AS lately,
            ts - lag(ts) OVER (PARTITION BY gpu_id, holder_id ORDER BY ts) - INTERVAL 1 MINUTE AS silence
        FROM minutes WHERE busy_ms + faint_ms > 0)
    GROUP BY ALL
), quiet AS (  -- from the end of the minute before: until now, and what was measured of that
    SELECT
        m.gpu_id, m.holder_id, m.ts, epoch_ms($as_of) - 120000 - epoch_ms(coalesce(
            lag(m.ts) OVER (PARTITION BY m.gpu_id, m.holder_id ORDER BY m.ts) + INTERVAL 1 MINUTE,
            greatest(c.from_ts, e.until_ts, $as_of - INTERVAL 7 DAY))) AS until_now_ms,
        sum(m.known_ms) OVER (PARTITION BY m.gpu_id, m.holder_id ORDER BY m.ts DESC) AS known_ms
    FROM minutes AS m
    JOIN claims AS c ON c.gpu_id = m.gpu_id AND c.holder_id = m.holder_id
    LEFT JOIN ends AS e ON e.gpu_id = m.gpu_id AND e.holder_id = m.holder_id
    WHERE m.known_ms > 0 AND (e.until_ts IS NULL OR m.ts >= e.until_ts)
), holed AS (
    SELECT gpu_id, holder_id, max(ts) AS ts FROM quiet
    WHERE until_now_ms - known_ms > 0.05 * greatest(until_now_ms, 3600000)
    GROUP BY ALL
), spells AS (
    SELECT
        gpu_id, holder_id,
        quantile_disc(epoch_ms(silence), 0.9) FILTER (WHERE silence >= INTERVAL 10 MINUTE) AS silence_p90_ms,
        quantile_disc(epoch_ms(silence), 0.9) FILTER (WHERE empty_ms >= 600000) AS absence_p90_ms,
        count(*) FILTER (begins_spell AND lately) AS spells,
        sum(60000 + CASE WHEN begins_spell THEN 0 ELSE epoch_ms(silence) END) FILTER (lately) AS spells_ms,
        count(*) FILTER (coalesce(silence >= INTERVAL 1 MINUTE, true) AND lately) AS begins
    FROM active
    GROUP BY ALL
), sums AS (
    SELECT
        m.gpu_id, m.holder_id, sum(m.known_ms) FILTER (WHERE e.until_ts IS NULL OR m.ts >= e.until_ts) AS known_since_ms,
        sum(m.known_ms) FILTER (WHERE m.ts >= $as_of - INTERVAL 24 HOUR) AS known_ms,
        sum(m.busy_ms) FILTER (WHERE m.ts >= $as_of - INTERVAL 24 HOUR) AS busy_ms,
        sum(m.used_ms) FILTER (WHERE m.ts >= $as_of - INTERVAL 24 HOUR AND m.busy_ms > 0) AS used_ms,
        sum(m.wasted_ms * g.share_of_device) FILTER (WHERE m.ts >= $as_of - INTERVAL 24 HOUR) / 3600000.0 AS idle_gpu_hours
    FROM minutes AS m
    JOIN gpus AS g USING (gpu_id)
    LEFT JOIN ends AS e ON e.gpu_id = m.gpu_id AND e.holder_id = m.holder_id
    GROUP BY ALL
)
SELECT
    m.gpu_id, m.holder_id, epoch_ms(e.until_ts) AS active_until_ms, coalesce(m.known_since_ms, 0)::DOUBLE AS known_since_ms,
    epoch_ms(q.ts) AS measured_from_ms,
    s.silence_p90_ms::DOUBLE AS silence_p90_ms, s.absence_p90_ms::DOUBLE AS absence_p90_ms, coalesce(m.known_ms, 0)::DOUBLE AS known_ms,
    coalesce(m.busy_ms, 0)::DOUBLE AS busy_ms, coalesce(s.spells, 0) AS spells,
    coalesce(s.spells_ms, 0)::DOUBLE AS spells_ms, coalesce(s.begins, 0) AS begins, l.longest_ms AS silence_longest_ms,
    (m.used_ms / nullif(m.busy_ms, 0))::DOUBLE AS busy_ratio, coalesce(m.idle_gpu_hours, 0.0)::DOUBLE AS idle_gpu_hours
FROM sums AS m
LEFT JOIN spells AS s ON s.gpu_id = m.gpu_id AND s.holder_id = m.holder_id
LEFT JOIN silent AS l ON l.gpu_id = m.gpu_id AND l.holder_id = m.holder_id
LEFT JOIN ends AS e ON e.gpu_id = m.gpu_id AND e.holder_id = m.holder_id
LEFT JOIN holed AS q ON q.gpu_id = m.gpu_id AND q.holder_id = m.holder_id
ORDER BY m.gpu_id, m.holder_id;
