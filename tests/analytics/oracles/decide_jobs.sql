-- decide_jobs as it was written before decision 160, which joins a week of minutes to itself: slow, and the same rows.
WITH claims AS (
    SELECT gpu_id, holder_id, share, from_ts FROM holds_at($as_of)
), rows AS (
    SELECT
        *, low_saturation_ms + moderate_ms + good_ms AS work_ms, work_ms - faint_ms AS busy_ms,
        free_ms + allocated_empty_ms + held_idle_ms + low_saturation_ms + moderate_ms + good_ms + suspect_ms AS own_ms,
        own_ms + withheld_ms + unknown_ms AS part_ms
    FROM rollup_1m
    WHERE ts >= $from_ts AND ts < $as_of AND gpu_id IN (SELECT gpu_id FROM claims)
), whole AS (
    SELECT gpu_id, ts, sum(part_ms) AS whole_ms FROM rows GROUP BY ALL
), minutes AS (
    SELECT u.*, u.own_ms * w.whole_ms / nullif(u.part_ms, 0) AS known_ms
    FROM rows AS u
    JOIN whole AS w USING (gpu_id, ts)
    JOIN claims AS c USING (gpu_id, holder_id)
    WHERE u.ts >= time_bucket(INTERVAL 1 MINUTE, c.from_ts)
), sums AS (
    SELECT
        gpu_id, holder_id, sum(known_ms) AS measured_ms,
        sum(allocated_empty_ms + held_idle_ms) AS idle_ms, count(*) FILTER (WHERE work_ms > 0) AS busy_minutes,
        ratio_of(sum(used_ms), sum(measured_ms)) AS mean_ratio,
        coalesce(
            quantile_disc(least(1.0, used_ms / measured_ms), 0.95) FILTER (WHERE measured_ms > 0 AND busy_ms > 0),
            quantile_disc(least(1.0, used_ms / measured_ms), 0.95) FILTER (WHERE measured_ms > 0)) AS p95_ratio,
        quantile_disc(controller_max_e4, 0.95) FILTER (WHERE busy_ms > 0) / 10000.0 AS controller_p95_ratio,
        sum(known_ms) FILTER (0.25 * moderate_ms + 0.5 * good_ms > 1.5 * (used_ms - engines_ms)) AS engine_ms,
        bool_or(engines_ms > 0.01 * measured_ms) AS uses_engines,
        max(memory_used_max_bytes) AS memory_peak_bytes,
        quantile_disc(rung, 0.05) FILTER (WHERE measured_ms > 0) AS rung
    FROM minutes
    GROUP BY ALL
), levels AS (
    SELECT gpu_id, holder_id, busy_ms > 0 AS is_busy, ts >= $as_of - INTERVAL 24 HOURS AS is_late, ceil(20 * least(1.0, used_ms / measured_ms)) AS level,
        count(*) AS minutes, sum(least(1.0, used_ms / measured_ms)) AS used
    FROM minutes WHERE measured_ms > 0 GROUP BY ALL
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
), beside AS (
    SELECT c.gpu_id, c.holder_id, count(DISTINCT o.holder_id) AS others
    FROM claims AS c
    JOIN allocations AS o ON o.gpu_id = c.gpu_id AND o.holder_id <> c.holder_id AND o.from_ts < $as_of
        AND (o.to_ts IS NULL OR o.to_ts > greatest(c.from_ts, $from_ts))
    GROUP BY ALL
)
SELECT
    g.uuid, h.job, h.user_name, h.project, h.job_name, h.kind, h.framework, c.share, epoch_ms(c.from_ts) AS from_ms,
    epoch_ms(greatest(c.from_ts, $from_ts)) AS seen_from_ms, coalesce(s.measured_ms, 0)::BIGINT AS measured_ms,
    coalesce(s.idle_ms, 0)::BIGINT AS idle_ms,
    coalesce(s.busy_minutes, 0) AS busy_minutes, s.mean_ratio AS utilization_mean_ratio,
    s.p95_ratio AS utilization_p95_ratio, e.excess_ratios, s.controller_p95_ratio, coalesce(s.engine_ms, 0)::BIGINT AS engine_ms, coalesce(s.uses_engines, false) AS uses_engines, s.memory_peak_bytes, s.rung, coalesce(b.others, 0) AS others
FROM claims AS c
JOIN gpus AS g USING (gpu_id)
JOIN holders AS h USING (holder_id)
LEFT JOIN sums AS s ON s.gpu_id = c.gpu_id AND s.holder_id = c.holder_id
LEFT JOIN excesses AS e ON e.gpu_id = c.gpu_id AND e.holder_id = c.holder_id
LEFT JOIN beside AS b ON b.gpu_id = c.gpu_id AND b.holder_id = c.holder_id
ORDER BY h.job, g.node, g.gpu_index, g.uuid;
