-- Who holds which GPU at an instant, and what each job made of it since `from_ts`, from the minute roll-up.
--
-- What is one hold, and who holds at the end of an imported past, `holds_at` says. Busy is any minute with time in a working state. The
-- roll-up splits the minutes of a shared GPU among its holders: measured time is made whole again. What two jobs did
-- on one GPU cannot be told apart. Minutes on a lower rung than the others (the first after a restart) say too much of
-- the use and never too little, so a few of them leave the job on the rung of the rest.
--
-- @param as_of instant: the instant
-- @param from_ts minute: start of the window that is looked at
-- @column uuid text: the GPU
-- @column job text: the job's id
-- @column user_name text: whose
-- @column project text: for which project
-- @column job_name text: its name
-- @column kind text: interactive, batch or inference
-- @column framework text: the likeliest framework
-- @column share double (fraction): how much of the GPU it was given
-- @column from_ms bigint (ms): since when
-- @column seen_from_ms bigint (ms): start of the part of the window in which it held this GPU
-- @column measured_ms bigint (ms): of that part, what was measured
-- @column idle_ms bigint (ms): of that, empty or idle
-- @column busy_minutes bigint: minutes with any work
-- @column utilization_mean_ratio double (ratio): used over measured time
-- @column utilization_p95_ratio double (ratio): that 19 of 20 minutes do not exceed in which it was over 1% busy; of measured ones, if it never was
-- @column excess_ratios double[] (ratio): by how much its use exceeds 0.05, 0.10, .. 0.95 of the GPU, the mean over these minutes, or over those of the newest 24 h where that is more
-- @column controller_p95_ratio double (ratio): the part of the time in which memory was read or written, as far as kept: that 19 of 20 of these minutes do not exceed in any sample
-- @column engine_ms bigint (ms): measured in minutes whose work the SMs do not account for: video engines at a quarter or more
-- @column uses_engines boolean: a video engine did more than noise, and more than the SMs, in one of these minutes
-- @column memory_peak_bytes bigint (bytes): the most used
-- @column rung tinyint: that 19 of 20 measured minutes reach (1 GPU utilization: an upper bound; 3 SM active)
-- @column others bigint: other jobs that had a part of this GPU in that time
-- @null else: not known or not measured
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
