-- What each present holder of a GPU that others held too did on it and kept of it, where that is told apart.
--
-- A minute counts when it is known what was the holder's own of it: nobody else held the GPU, nobody did anything, or
-- each process that the driver told of is of one who held it (or an intruder's); or an exporter told of whole pods. Its
-- memory has to be told too. The use is that of the minute roll-up, which is each one's own in such minutes.
--
-- @param as_of instant: the instant
-- @param from_ts minute: start of the window
-- @column uuid text: the GPU
-- @column job text: the job's id
-- @column told_ms bigint (ms): of its time on the GPU in the window, what was measured and is known to be its own
-- @column utilization_mean_ratio double (ratio): of the GPU, its own, in that time
-- @column utilization_p95_ratio double (ratio): that 19 of 20 of these minutes in which it worked do not exceed; of all, if it never did
-- @column excess_ratios double[] (ratio): by how much its use exceeds 0.05, 0.10, .. 0.95 of the GPU, the mean over these minutes, or over those of the newest 24 h where that is more
-- @column memory_peak_bytes bigint (bytes): the most that its own processes kept
-- @column board_p95_ratio double (ratio): what all of them did together: that 19 of 20 of these minutes in which any worked do not exceed
-- @never_null uuid, job, told_ms
-- @null in no minute it is known
WITH claims AS (
    SELECT gpu_id, holder_id, greatest(from_ts, $from_ts) AS from_ts FROM holds_at($as_of)
), beside AS (
    SELECT DISTINCT c.gpu_id
    FROM claims AS c
    JOIN allocations AS o ON o.gpu_id = c.gpu_id AND o.holder_id <> c.holder_id AND o.from_ts < $as_of
        AND (o.to_ts IS NULL OR o.to_ts > c.from_ts)
), rows AS (
    SELECT
        gpu_id, ts, holder_id, used_ms, measured_ms, memory_used_max_bytes,
        low_saturation_ms + moderate_ms + good_ms AS work_ms
    FROM rollup_1m
    WHERE ts >= $from_ts AND ts < $as_of AND gpu_id IN (SELECT gpu_id FROM beside)
), minutes AS (
    SELECT
        gpu_id, ts, sum(measured_ms) AS whole_ms, sum(used_ms) AS used_ms, sum(work_ms) AS work_ms, count(holder_id) = 1 AS is_alone,
        max(memory_used_max_bytes) AS memory_bytes
    FROM rows GROUP BY ALL
), persons AS (
    SELECT r.gpu_id, r.ts, h.user_name, min(r.holder_id) AS holder_id
    FROM rows AS r JOIN holders AS h USING (holder_id)
    WHERE h.user_name IS NOT NULL
    GROUP BY ALL HAVING count(*) = 1
), touching AS (
    SELECT
        gpu_id, time_bucket(INTERVAL 1 MINUTE, ts - INTERVAL 1 MILLISECOND) AS ts, process_id, sum(coalesce(sm_e4, 0)) AS work,
        max(memory_used_bytes) AS memory_bytes
    FROM process_samples
    WHERE ts > $from_ts AND ts <= $as_of AND gpu_id IN (SELECT gpu_id FROM beside)
    GROUP BY ALL
), owned AS (
    SELECT
        t.gpu_id, t.ts, t.work, t.memory_bytes, i.process_id IS NOT NULL AS intrudes,
        CASE WHEN i.process_id IS NULL
            THEN coalesce(r.holder_id, CASE WHEN p.holder_id IS NULL THEN u.holder_id END) END AS holder_id
    FROM touching AS t
    JOIN processes AS p USING (process_id)
    LEFT JOIN rows AS r ON r.gpu_id = t.gpu_id AND r.ts = t.ts AND r.holder_id = p.holder_id
    LEFT JOIN persons AS u ON u.gpu_id = t.gpu_id AND u.ts = t.ts AND u.user_name = p.user_name
    LEFT JOIN (SELECT DISTINCT gpu_id, process_id FROM intrusions) AS i
        ON i.gpu_id = t.gpu_id AND i.process_id = t.process_id
), pods AS (
    SELECT
        gpu_id, time_bucket(INTERVAL 1 MINUTE, ts - INTERVAL 1 MILLISECOND) AS ts, holder_id,
        sum(coalesce(gpu_utilization_e4, 0)) AS work, max(memory_used_bytes) AS memory_bytes
    FROM holder_samples
    WHERE ts > $from_ts AND ts <= $as_of AND gpu_id IN (SELECT gpu_id FROM beside)
    GROUP BY ALL
), told AS (
    SELECT gpu_id, ts, holder_id, intrudes, work, memory_bytes FROM owned
    UNION ALL
    SELECT p.gpu_id, p.ts, r.holder_id, false AS intrudes, p.work, p.memory_bytes
    FROM (FROM pods ANTI JOIN touching USING (gpu_id, ts)) AS p
    LEFT JOIN rows AS r ON r.gpu_id = p.gpu_id AND r.ts = p.ts AND r.holder_id = p.holder_id
), totals AS (
    SELECT
        gpu_id, ts, sum(work) AS work,
        bool_and((holder_id IS NOT NULL OR intrudes) AND memory_bytes IS NOT NULL) AS is_told
    FROM told GROUP BY ALL
), kept AS (
    SELECT gpu_id, ts, holder_id, sum(memory_bytes) AS memory_bytes FROM told GROUP BY ALL
), own AS (
    SELECT
        c.gpu_id, c.holder_id, m.ts, m.whole_ms, r.used_ms / nullif(m.whole_ms, 0) AS used_ratio,
        m.used_ms / nullif(m.whole_ms, 0) AS board_ratio,
        CASE WHEN m.is_alone THEN m.memory_bytes ELSE coalesce(k.memory_bytes, 0) END AS memory_bytes
    FROM claims AS c
    JOIN rows AS r ON r.gpu_id = c.gpu_id AND r.holder_id = c.holder_id AND r.ts >= c.from_ts
    JOIN minutes AS m ON m.gpu_id = r.gpu_id AND m.ts = r.ts
    LEFT JOIN totals AS t ON t.gpu_id = r.gpu_id AND t.ts = r.ts
    LEFT JOIN kept AS k ON k.gpu_id = r.gpu_id AND k.ts = r.ts AND k.holder_id = r.holder_id
    WHERE m.whole_ms > 0 AND CASE WHEN m.is_alone THEN m.memory_bytes IS NOT NULL
        ELSE coalesce(t.is_told, false) AND (t.work > 0 OR m.work_ms = 0) END
), levels AS (
    SELECT
        gpu_id, holder_id, used_ratio > 0.01 AS is_busy, ts >= $as_of - INTERVAL 24 HOURS AS is_late,
        ceil(20 * least(1.0, used_ratio)) AS level, count(*) AS minutes, sum(least(1.0, used_ratio)) AS used
    FROM own WHERE used_ratio IS NOT NULL GROUP BY ALL
), beyond AS (
    SELECT l.gpu_id, l.holder_id, e.edge, greatest(0.0, l.used - l.minutes * e.edge / 20) AS over, l.minutes, l.is_late
    FROM levels AS l CROSS JOIN (SELECT unnest(range(1, 20)) AS edge) AS e
    WHERE l.is_busy OR (l.gpu_id, l.holder_id) NOT IN (SELECT (gpu_id, holder_id) FROM levels WHERE is_busy)
), means AS (
    SELECT
        gpu_id, holder_id, edge,
        greatest(sum(over) / sum(minutes), sum(over) FILTER (is_late) / sum(minutes) FILTER (is_late)) AS excess
    FROM beyond GROUP BY ALL
), excesses AS (
    SELECT gpu_id, holder_id, list(excess ORDER BY edge) AS excess_ratios FROM means GROUP BY ALL
)
SELECT
    g.uuid, h.job, coalesce(sum(o.whole_ms), 0)::BIGINT AS told_ms,
    (sum(o.used_ratio * o.whole_ms) / sum(o.whole_ms))::DOUBLE AS utilization_mean_ratio,
    coalesce(quantile_disc(o.used_ratio, 0.95) FILTER (o.used_ratio > 0.01), quantile_disc(o.used_ratio, 0.95))::DOUBLE AS utilization_p95_ratio, any_value(e.excess_ratios) AS excess_ratios, max(o.memory_bytes)::BIGINT AS memory_peak_bytes,
    coalesce(quantile_disc(o.board_ratio, 0.95) FILTER (o.board_ratio > 0.01), quantile_disc(o.board_ratio, 0.95))::DOUBLE AS board_p95_ratio
FROM claims AS c
SEMI JOIN beside AS b ON b.gpu_id = c.gpu_id
JOIN gpus AS g USING (gpu_id)
JOIN holders AS h USING (holder_id)
LEFT JOIN own AS o ON o.gpu_id = c.gpu_id AND o.holder_id = c.holder_id
LEFT JOIN excesses AS e ON e.gpu_id = c.gpu_id AND e.holder_id = c.holder_id
GROUP BY c.gpu_id, c.holder_id, g.uuid, h.job
ORDER BY h.job, g.uuid;
