-- What every job of a window held and made of it; jobs that hold something now as well.
--
-- Utilization and memory are those of its busiest GPU. Measured time on a shared GPU is made whole again, minute by
-- minute. Hours stand for their minutes where a GPU had one holder all along.
--
-- @param from_ts minute: start of the window
-- @param to_ts minute: end of the window, exclusive
-- @mark hours_to rollup_1h
-- @column job text: the job's id
-- @column user_name text: whose
-- @column project text: for which project
-- @column job_name text: its name
-- @column kind text: interactive, batch or inference
-- @column framework text: the likeliest framework
-- @column gpus bigint (GPUs): how many it held at once; where that changed, the mean in whole GPUs
-- @column share double (fraction): how much of each
-- @column model text: their model
-- @column memory_total_bytes bigint (bytes): the memory of each
-- @column part_of_device double (ratio): of MIG instances, the part that each has of its device, the mean over its time; by it their hours count
-- @column from_ms bigint (ms): when it began to hold them, within the window
-- @column to_ms bigint (ms): when it ended, within the window
-- @column measured_ms bigint (ms): of its time on each GPU together, measured
-- @column expected_ms bigint (ms): that time, without the times in which it held none
-- @column idle_ms bigint (ms): empty or idle
-- @column gpus_used bigint (GPUs): on how many it ever computed, of those at most
-- @column memory_unused_bytes bigint (bytes): the most used on one of those on which it never computed
-- @column utilization_mean_ratio double (ratio): used over measured time
-- @column utilization_p95_ratio double (ratio): that 19 of 20 minutes do not exceed in which it was over 1% busy; of jobs on one GPU only
-- @column excess_ratios double[] (ratio): by how much its use exceeds 0.05, 0.10, .. 0.95 of the GPU, the mean over these minutes; of jobs on one GPU only
-- @column controller_p95_ratio double (ratio): the part of the time in which memory was read or written, as far as kept: that 19 of 20 of these minutes do not exceed in any sample; of jobs on one GPU only
-- @column engine_ms bigint (ms): measured in minutes or hours whose work the SMs do not account for: video engines at a quarter or more
-- @column memory_peak_bytes bigint (bytes): the most used
-- @column rung tinyint: the lowest rung that went in (1 GPU utilization: an upper bound; 3 SM active)
-- @column others bigint: other jobs that had a part of one of its GPUs
-- @column per_gpu_hour double (currency): the price of an hour of one
-- @column currency text: of the price
-- @never_null job
-- @null part_of_device: whole devices; prices: none is configured; else: not known or not measured
WITH spells AS (
    SELECT
        gpu_id, holder_id, max(share) AS share, greatest(min(from_ts), $from_ts) AS from_ts,
        least(max(coalesce(to_ts, $to_ts)), $to_ts) AS to_ts,
        sum(epoch_ms(least(coalesce(to_ts, $to_ts), $to_ts)) - epoch_ms(greatest(from_ts, $from_ts))) AS held_ms
    FROM allocations
    WHERE from_ts < $to_ts AND (to_ts IS NULL OR to_ts > $from_ts)
    GROUP BY ALL
), instants AS (
    SELECT
        holder_id, sum(sum(change)) OVER (PARTITION BY holder_id ORDER BY ts) AS gpus,
        epoch_ms(lead(ts) OVER (PARTITION BY holder_id ORDER BY ts)) - epoch_ms(ts) AS ms
    FROM (
        SELECT holder_id, greatest(from_ts, $from_ts) AS ts, 1 AS change FROM allocations
        WHERE from_ts < $to_ts AND (to_ts IS NULL OR to_ts > $from_ts)
        UNION ALL
        SELECT holder_id, least(coalesce(to_ts, $to_ts), $to_ts), -1 FROM allocations
        WHERE from_ts < $to_ts AND (to_ts IS NULL OR to_ts > $from_ts)
    )
    GROUP BY holder_id, ts
), sizes AS (
    SELECT holder_id, greatest(1, round(sum(gpus * ms) / sum(ms) FILTER (WHERE gpus > 0)))::BIGINT AS gpus
    FROM instants GROUP BY holder_id
), hours AS (
    SELECT
        *, low_saturation_ms + moderate_ms + good_ms AS work_ms,
        0.25 * moderate_ms + 0.5 * good_ms > 1.5 * (used_ms - engines_ms) AS by_engines,
        free_ms + allocated_empty_ms + held_idle_ms + low_saturation_ms + moderate_ms + good_ms + suspect_ms AS own_ms
    FROM rollup_1h
    WHERE ts >= time_bucket(INTERVAL 1 HOUR, $from_ts + INTERVAL 59 MINUTE)
        AND ts < least($hours_to, time_bucket(INTERVAL 1 HOUR, $to_ts))
), unclear AS (
    SELECT gpu_id, ts FROM hours GROUP BY ALL HAVING count(*) > 1
    UNION
    SELECT gpu_id, any_value(ts) FROM hours WHERE work_ms > 0 AND holder_id IS NOT NULL
    GROUP BY gpu_id, holder_id HAVING count(*) = 1 AND sum(work_ms) <= 60000
), rows AS (
    SELECT
        *, low_saturation_ms + moderate_ms + good_ms AS work_ms,
        0.25 * moderate_ms + 0.5 * good_ms > 1.5 * (used_ms - engines_ms) AS by_engines,
        free_ms + allocated_empty_ms + held_idle_ms + low_saturation_ms + moderate_ms + good_ms + suspect_ms AS own_ms,
        own_ms + withheld_ms + unknown_ms AS part_ms
    FROM rollup_1m
    WHERE ts >= $from_ts AND ts < $to_ts AND (ts < time_bucket(INTERVAL 1 HOUR, $from_ts + INTERVAL 59 MINUTE)
        OR ts >= least($hours_to, time_bucket(INTERVAL 1 HOUR, $to_ts))
        OR (gpu_id, date_trunc('hour', ts)) IN (SELECT (gpu_id, ts) FROM unclear))
), whole AS (
    SELECT gpu_id, ts, sum(part_ms) AS whole_ms FROM rows GROUP BY ALL
), parts AS (
    SELECT
        u.gpu_id, u.holder_id, u.own_ms * w.whole_ms / nullif(u.part_ms, 0) AS known_ms,
        u.allocated_empty_ms + u.held_idle_ms AS idle_ms, (u.work_ms > 0)::INTEGER AS busy_minutes, u.used_ms,
        u.measured_ms, u.memory_used_max_bytes, u.rung, u.by_engines
    FROM rows AS u JOIN whole AS w USING (gpu_id, ts)
    WHERE u.holder_id IS NOT NULL
    UNION ALL BY NAME
    SELECT u.gpu_id, u.holder_id, u.own_ms AS known_ms, u.allocated_empty_ms + u.held_idle_ms AS idle_ms,
        ceil(u.work_ms / 60000)::INTEGER AS busy_minutes, u.used_ms, u.measured_ms, u.memory_used_max_bytes, u.rung,
        u.by_engines
    FROM hours AS u ANTI JOIN unclear AS x ON x.gpu_id = u.gpu_id AND x.ts = u.ts
    WHERE u.holder_id IS NOT NULL
), sums AS (
    SELECT
        gpu_id, holder_id, sum(known_ms) AS measured_ms, sum(idle_ms) AS idle_ms, sum(busy_minutes) AS busy_minutes,
        ratio_of(sum(used_ms), sum(measured_ms)) AS mean_ratio, max(memory_used_max_bytes) AS memory_peak_bytes,
        min(rung) FILTER (WHERE measured_ms > 0) AS rung, sum(known_ms) FILTER (by_engines) AS engine_ms
    FROM parts
    GROUP BY ALL
), alone AS (
    SELECT holder_id, any_value(gpu_id) AS gpu_id FROM sums GROUP BY holder_id HAVING count(*) = 1
), peaks AS (
    SELECT
        m.gpu_id, m.holder_id,
        coalesce(
            quantile_disc(least(1.0, m.used_ms / m.measured_ms), 0.95)
                FILTER (m.low_saturation_ms - m.faint_ms + m.moderate_ms + m.good_ms > 0),
            quantile_disc(least(1.0, m.used_ms / m.measured_ms), 0.95)) AS p95_ratio,
        quantile_disc(m.controller_max_e4, 0.95)
            FILTER (m.low_saturation_ms - m.faint_ms + m.moderate_ms + m.good_ms > 0) / 10000.0 AS controller_p95_ratio
    FROM rollup_1m AS m SEMI JOIN alone AS a ON a.gpu_id = m.gpu_id AND a.holder_id = m.holder_id
    WHERE m.ts >= $from_ts AND m.ts < $to_ts AND m.measured_ms > 0
    GROUP BY ALL
), levels AS (
    SELECT
        m.gpu_id, m.holder_id, m.low_saturation_ms - m.faint_ms + m.moderate_ms + m.good_ms > 0 AS is_busy,
        ceil(20 * least(1.0, m.used_ms / m.measured_ms)) AS level, count(*) AS minutes,
        sum(least(1.0, m.used_ms / m.measured_ms)) AS used
    FROM rollup_1m AS m SEMI JOIN alone AS a ON a.gpu_id = m.gpu_id AND a.holder_id = m.holder_id
    WHERE m.ts >= $from_ts AND m.ts < $to_ts AND m.measured_ms > 0
    GROUP BY ALL
), beyond AS (
    SELECT l.gpu_id, l.holder_id, e.edge, sum(greatest(0.0, l.used - l.minutes * e.edge / 20)) / sum(l.minutes) AS excess
    FROM levels AS l CROSS JOIN (SELECT unnest(range(1, 20)) AS edge) AS e
    WHERE l.is_busy OR (l.gpu_id, l.holder_id) NOT IN (SELECT (gpu_id, holder_id) FROM levels WHERE is_busy)
    GROUP BY ALL
), excesses AS (
    SELECT gpu_id, holder_id, list(excess ORDER BY edge) AS excess_ratios FROM beyond GROUP BY ALL
), beside AS (
    SELECT a.holder_id, count(DISTINCT b.holder_id) AS others
    FROM spells AS a
    JOIN spells AS b ON b.gpu_id = a.gpu_id AND b.holder_id <> a.holder_id AND b.from_ts < a.to_ts AND b.to_ts > a.from_ts
    GROUP BY ALL
)
SELECT
    h.job, any_value(h.user_name) AS user_name, any_value(h.project) AS project, any_value(h.job_name) AS job_name,
    any_value(h.kind) AS kind, any_value(h.framework) AS framework, any_value(z.gpus) AS gpus, min(a.share) AS share,
    min(g.model) AS model, min(g.memory_total_bytes) AS memory_total_bytes,
    CASE WHEN bool_or(g.parent_uuid IS NOT NULL) THEN sum(a.held_ms * g.share_of_device) / nullif(sum(a.held_ms), 0) END AS part_of_device,
    epoch_ms(min(a.from_ts)) AS from_ms,
    epoch_ms(max(a.to_ts)) AS to_ms, sum(coalesce(s.measured_ms, 0))::BIGINT AS measured_ms,
    sum(a.held_ms)::BIGINT AS expected_ms, sum(coalesce(s.idle_ms, 0))::BIGINT AS idle_ms,
    least(any_value(z.gpus), count(*) FILTER (WHERE s.busy_minutes >= least(2, ceil(a.held_ms / 120000.0)))) AS gpus_used,
    max(s.memory_peak_bytes) FILTER (s.busy_minutes < least(2, ceil(a.held_ms / 120000.0))) AS memory_unused_bytes, avg(s.mean_ratio) AS utilization_mean_ratio,
    max(q.p95_ratio) AS utilization_p95_ratio, any_value(e.excess_ratios) AS excess_ratios, max(q.controller_p95_ratio) AS controller_p95_ratio, sum(coalesce(s.engine_ms, 0))::BIGINT AS engine_ms, max(s.memory_peak_bytes) AS memory_peak_bytes, min(s.rung) AS rung,
    coalesce(any_value(b.others), 0) AS others, min(p.per_gpu_hour) AS per_gpu_hour, min(p.currency) AS currency
FROM spells AS a
JOIN gpus AS g USING (gpu_id)
JOIN gpu_prices AS p USING (gpu_id)
JOIN holders AS h USING (holder_id)
JOIN sizes AS z USING (holder_id)
LEFT JOIN sums AS s ON s.gpu_id = a.gpu_id AND s.holder_id = a.holder_id
LEFT JOIN peaks AS q ON q.gpu_id = a.gpu_id AND q.holder_id = a.holder_id
LEFT JOIN excesses AS e ON e.gpu_id = a.gpu_id AND e.holder_id = a.holder_id
LEFT JOIN beside AS b ON b.holder_id = a.holder_id
GROUP BY h.job
ORDER BY h.job;
