-- Who holds which GPU at an instant, and what each job made of it since `from_ts`, from the minute roll-up.
--
-- What is one hold, and who holds at the end of an imported past, `holds_at` says. Busy is any minute with time in a working state. The
-- roll-up splits the minutes of a shared GPU among its holders: measured time is made whole again. What two jobs did
-- on one GPU cannot be told apart. Minutes on a lower rung than the others (the first after a restart) say too much of
-- the use and never too little, so a few of them leave the job on the rung of the rest.
--
-- A week of minutes is ten million rows at 1,000 GPUs: they are read twice and kept nowhere, and joined to themselves only where
-- several holders have a part of the same minute (decision 160).
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
WITH claims AS MATERIALIZED (
    SELECT
        row_number() OVER () AS hold, gpu_id, holder_id, share, from_ts, time_bucket(INTERVAL 1 MINUTE, from_ts) AS from_minute
    FROM holds_at($as_of)
), oldest AS (
    SELECT gpu_id, arg_min(holder_id, from_minute) AS holder_id, min(from_minute) AS from_minute FROM claims GROUP BY gpu_id
), divided AS (  -- minutes with a row beside that of the oldest hold
    SELECT DISTINCT u.gpu_id, u.ts
    FROM rollup_1m AS u
    JOIN oldest AS o ON o.gpu_id = u.gpu_id AND u.ts >= o.from_minute AND u.holder_id IS DISTINCT FROM o.holder_id
    WHERE u.ts >= $from_ts AND u.ts < $as_of
), whole AS MATERIALIZED (
    SELECT
        u.gpu_id, u.ts, sum(free_ms + allocated_empty_ms + held_idle_ms + low_saturation_ms + moderate_ms + good_ms + suspect_ms
            + withheld_ms + unknown_ms) AS whole_ms
    FROM rollup_1m AS u SEMI JOIN divided USING (gpu_id, ts)
    WHERE u.ts >= $from_ts AND u.ts < $as_of
    GROUP BY ALL
), minutes AS NOT MATERIALIZED (
    SELECT
        u.*, c.hold, low_saturation_ms + moderate_ms + good_ms AS work_ms, coalesce(work_ms > faint_ms, false) AS is_busy,
        CASE WHEN measured_ms > 0 THEN least(1.0, used_ms / measured_ms) END AS ratio
    FROM rollup_1m AS u
    JOIN claims AS c ON c.gpu_id = u.gpu_id AND c.holder_id = u.holder_id AND u.ts >= c.from_minute
    WHERE u.ts >= $from_ts AND u.ts < $as_of
), parts AS MATERIALIZED (  -- a twentieth of the GPU each
    SELECT
        hold, is_busy, ts >= $as_of - INTERVAL 24 HOURS AS is_late, ceil(20 * ratio) AS level, rung, count(*) AS minutes,
        sum(ratio) AS ratios, sum(known_ms) AS known_ms, sum(rest_ms) AS rest_ms, count(*) FILTER (work_ms > 0) AS work_minutes,
        sum(used_ms) AS used_ms, sum(measured_ms) AS measured_ms, sum(known_ms) FILTER (by_engines) AS engine_ms,
        bool_or(uses_engines) AS uses_engines, max(memory_used_max_bytes) AS memory_peak_bytes
    FROM (
        SELECT
            m.*, free_ms + allocated_empty_ms + held_idle_ms + work_ms + suspect_ms AS own_ms,
            own_ms + withheld_ms + unknown_ms AS part_ms,
            own_ms * coalesce(w.whole_ms, part_ms) / nullif(part_ms, 0) AS known_ms, allocated_empty_ms + held_idle_ms AS rest_ms,
            0.25 * moderate_ms + 0.5 * good_ms > 1.5 * (used_ms - engines_ms) AS by_engines,
            engines_ms > 0.01 * measured_ms AS uses_engines
        FROM minutes AS m LEFT JOIN whole AS w ON w.gpu_id = m.gpu_id AND w.ts = m.ts)
    GROUP BY ALL
), reached AS (  -- measured minutes up to each rung
    SELECT hold, rung, sum(sum(minutes)) OVER up AS below, sum(sum(minutes)) OVER (PARTITION BY hold) AS minutes
    FROM parts WHERE level IS NOT NULL GROUP BY hold, rung
    WINDOW up AS (PARTITION BY hold ORDER BY rung)
), rungs AS (
    SELECT hold, min(rung) AS rung FROM reached WHERE 20 * below >= minutes GROUP BY hold
), sums AS (
    SELECT
        hold, sum(known_ms) AS measured_ms, sum(rest_ms) AS idle_ms, sum(work_minutes)::BIGINT AS busy_minutes,
        ratio_of(sum(used_ms), sum(measured_ms)) AS mean_ratio, sum(engine_ms) AS engine_ms,
        bool_or(uses_engines) AS uses_engines, max(memory_peak_bytes) AS memory_peak_bytes
    FROM parts GROUP BY hold
), worked AS (
    SELECT hold, coalesce(bool_or(is_busy AND level IS NOT NULL), false) AS was_busy FROM parts GROUP BY hold
), peaks AS (
    SELECT
        hold, quantile_disc(ratio, 0.95) AS p95_ratio,
        quantile_disc(controller_max_e4, 0.95) FILTER (is_busy) / 10000.0 AS controller_p95_ratio
    FROM minutes JOIN worked USING (hold) WHERE is_busy OR NOT was_busy GROUP BY hold
), beyond AS (
    SELECT p.hold, e.edge, greatest(0.0, p.ratios - p.minutes * e.edge / 20) AS over, p.minutes, p.is_late
    FROM parts AS p JOIN worked USING (hold) CROSS JOIN (SELECT unnest(range(1, 20)) AS edge) AS e
    WHERE p.level IS NOT NULL AND (p.is_busy OR NOT was_busy)
), means AS (
    SELECT
        hold, edge, greatest(sum(over) / sum(minutes), sum(over) FILTER (is_late) / sum(minutes) FILTER (is_late)) AS excess
    FROM beyond GROUP BY ALL
), excesses AS (
    SELECT hold, list(excess ORDER BY edge) AS excess_ratios FROM means GROUP BY hold
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
    p.p95_ratio AS utilization_p95_ratio, e.excess_ratios, p.controller_p95_ratio, coalesce(s.engine_ms, 0)::BIGINT AS engine_ms, coalesce(s.uses_engines, false) AS uses_engines, s.memory_peak_bytes, r.rung, coalesce(b.others, 0) AS others
FROM claims AS c
JOIN gpus AS g USING (gpu_id)
JOIN holders AS h USING (holder_id)
LEFT JOIN sums AS s USING (hold)
LEFT JOIN peaks AS p USING (hold)
LEFT JOIN rungs AS r USING (hold)
LEFT JOIN excesses AS e USING (hold)
LEFT JOIN beside AS b ON b.gpu_id = c.gpu_id AND b.holder_id = c.holder_id
ORDER BY h.job, g.node, g.gpu_index, g.uuid;
