-- What each job held, used and wasted in the window, the most wasteful first.
--
-- @param from_ts minute: start of the window
-- @param to_ts minute: end of the window, exclusive
-- @param node text = NULL: only this node
-- @param project text = NULL: only what this project held
-- @param user text = NULL: only what this user held
-- @param model text = NULL: only GPUs of this model
-- @param job text = NULL: only the job of this id
-- @mark hours_to rollup_1h
-- @mark days_to rollup_1d
-- @column job text: the job's id
-- @column job_name text: its name
-- @column user_name text: whose
-- @column project text: for which project
-- @column framework text: the likeliest framework
-- @column kind text: interactive, batch or inference
-- @column command text: its command line
-- @column gpus bigint (GPUs): how many it held in the window
-- @column gpus_at_once bigint (GPUs): of these, the most at one time
-- @column runs bigint: in how many runs it held them in the window: over ten minutes without any lie between two, in which
--     somebody looked at one of them
-- @column from_ts timestamp: when it was first given a GPU
-- @column from_is_bound boolean: its GPU's records begin with it, so that it may have held it before
-- @column to_ts timestamp: when it gave back its last one
-- @column measured_to timestamp: of the GPUs that it still holds, the newest sample
-- @column gpu_hours double (GPU-hours): held in the window
-- @column used_gpu_hours double (GPU-hours): utilization times measured time
-- @column wasted_gpu_hours double (GPU-hours): held, and empty or idle
-- @column utilization_ratio double (ratio): used over measured time
-- @column memory_used_max_bytes bigint (bytes): the most used on one of its GPUs
-- @column unknown_gpu_hours double (GPU-hours): of those held, not measured
-- @column suspect_gpu_hours double (GPU-hours): of those held, in which its counters contradict each other
-- @column busy_gpu_hours double (GPU-hours): in which its GPUs were in use, however little
-- @column engine_gpu_hours double (GPU-hours): of busy_gpu_hours, times whose work the SMs do not account for: video engines
-- @column copied_gpu_hours double (GPU-hours): of busy_gpu_hours, in which memory was read or written and nothing computed
-- @column gpus_used bigint (GPUs): on how many it computed for two minutes or more, or for a tenth of the time (half, in its first two hours), or copied for a tenth
-- @column rung tinyint: the lowest rung that went in (1 GPU utilization: an upper bound; 3 SM active)
-- @column found text: the kinds of what was found about it in the window, comma-separated
-- @column cost double (currency): of gpu_hours
-- @column currency text: of the cost
-- @column energy_kwh double (kWh): used in that time
-- @column energy_known_ratio double (ratio): the part of gpu_hours in which energy was measured
-- @column wasted_energy_kwh double (kWh): used while wasted
-- @column wasted_energy_known_ratio double (ratio): the part of wasted_gpu_hours of which energy is known
-- @never_null job
-- @null to_ts: it still holds one, as far as is known; measured_to: it holds none; found: nothing; cost: no price; ratios of energy: no hours; else: not known or not measured
WITH sums AS (
    SELECT
        holder_id, sum_hours(total_ms, share_of_device) AS gpu_hours,
        sum_hours(used_ms, share_of_device) AS used_gpu_hours, sum_hours(wasted_ms, share_of_device) AS wasted_gpu_hours,
        sum_ratio(used_ms, measured_ms, share_of_device) AS utilization_ratio,
        max(memory_used_max_bytes) AS memory_used_max_bytes, sum_hours(unknown_ms, share_of_device) AS unknown_gpu_hours,
        sum_hours(suspect_ms, share_of_device) AS suspect_gpu_hours,
        sum_hours(low_saturation_ms + moderate_ms + good_ms, share_of_device) AS busy_gpu_hours,
        sum_hours(CASE WHEN 0.25 * moderate_ms + 0.5 * good_ms > 1.5 * (used_ms - engines_ms)
            THEN low_saturation_ms + moderate_ms + good_ms ELSE 0 END, share_of_device) AS engine_gpu_hours,
        sum_hours(copied_ms, share_of_device) AS copied_gpu_hours,
        sum_money(total_ms, share_of_device, per_gpu_hour, currency) AS cost, one_currency(currency) AS currency,
        energy_kwh(energy_mj, energy_ms, total_ms) AS energy_kwh,
        sum_ratio(energy_ms, total_ms, share_of_device) AS energy_known_ratio,
        energy_kwh(wasted_energy_mj, wasted_energy_ms, wasted_ms) AS wasted_energy_kwh,
        sum_ratio(wasted_energy_ms, wasted_ms, share_of_device) AS wasted_energy_known_ratio
    FROM holder_rows($from_ts, $to_ts, $hours_to, $days_to, $node, $project, $user, $model)
    WHERE holder_id IS NOT NULL
        AND ($job IS NULL OR holder_id IN (SELECT holder_id FROM holders WHERE job = $job))
    GROUP BY holder_id
), each_gpu AS (
    SELECT
        holder_id, gpu_id, sum(low_saturation_ms + moderate_ms + good_ms - copied_ms) AS busy_ms, sum(held_ms) AS held_ms,
        sum(copied_ms) >= 0.1 * sum(held_ms) AND sum(copied_ms) > 0 AS is_copying, min(rung) FILTER (WHERE measured_ms > 0) AS rung
    FROM usage($from_ts, $to_ts, $hours_to, $days_to) SEMI JOIN sums USING (holder_id)
    WHERE ($node IS NULL AND $model IS NULL) OR gpu_id IN (
        SELECT gpu_id FROM gpus WHERE ($node IS NULL OR node = $node) AND ($model IS NULL OR model = $model))
    GROUP BY holder_id, gpu_id
), shares AS (
    SELECT holder_id, gpu_id, min(share) AS share FROM allocations SEMI JOIN sums USING (holder_id) GROUP BY ALL
), said AS (
    SELECT holder_id, string_agg(DISTINCT kind, ', ' ORDER BY kind) AS found
    FROM findings
    WHERE holder_id IS NOT NULL AND opened_at <= $to_ts AND (closed_at IS NULL OR closed_at > $from_ts)
    GROUP BY holder_id
), spans AS (
    SELECT
        holder_id, min(from_ts) AS from_ts,
        CASE WHEN NOT bool_or(still_held(to_ts, l.ts, l.width_ms)) THEN max(to_ts) END AS to_ts,
        count(DISTINCT gpu_id) FILTER (WHERE from_ts < $to_ts AND (to_ts IS NULL OR to_ts > $from_ts)) AS gpus,
        max(l.ts) FILTER (WHERE still_held(to_ts, l.ts, l.width_ms)) AS measured_to
    FROM allocations SEMI JOIN sums USING (holder_id) LEFT JOIN latest AS l USING (gpu_id) GROUP BY holder_id
), used AS (  -- two minutes of the clock, which are less on a share, or so much of a shorter time; who was given it lately may begin yet
    SELECT holder_id, count(*) FILTER (WHERE is_copying OR busy_ms >= 120000 * coalesce(share, 1)
        OR (busy_ms > 0 AND busy_ms >= CASE WHEN to_ts IS NULL AND from_ts > $to_ts - INTERVAL 2 HOUR THEN 0.5 ELSE 0.1 END * held_ms)) AS gpus_used, min(rung) AS rung
    FROM each_gpu LEFT JOIN shares USING (holder_id, gpu_id) LEFT JOIN spans USING (holder_id) GROUP BY holder_id
), steps AS (
    SELECT holder_id, from_ts AS ts, 1 AS step FROM allocations SEMI JOIN sums USING (holder_id)
    WHERE from_ts < $to_ts AND (to_ts IS NULL OR to_ts > $from_ts)
    UNION ALL  -- a job that moves has one GPU, though its sources may see the old one for a minute more
    SELECT holder_id, greatest(from_ts, to_ts - INTERVAL 1 MINUTE), -1 FROM allocations SEMI JOIN sums USING (holder_id)
    WHERE from_ts < $to_ts AND to_ts > $from_ts
), together AS (
    SELECT holder_id, max(held) AS gpus_at_once
    FROM (
        SELECT holder_id, sum(step) OVER (PARTITION BY holder_id ORDER BY ts, step ROWS UNBOUNDED PRECEDING) AS held
        FROM steps)
    GROUP BY holder_id
), turns AS (
    SELECT
        holder_id, gpu_id, from_ts, max(coalesce(to_ts, $to_ts)) OVER (
            PARTITION BY holder_id ORDER BY from_ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS ended_ts
    FROM allocations SEMI JOIN sums USING (holder_id)
    WHERE from_ts < $to_ts AND (to_ts IS NULL OR to_ts > $from_ts)
), breaks AS (
    SELECT holder_id, gpu_id, from_ts, ended_ts FROM turns WHERE from_ts - ended_ts > INTERVAL 10 MINUTE
), seen AS (  -- somebody looked in a whole hour of the break: few rows say so, and most breaks need no minutes
    SELECT DISTINCT b.holder_id, b.gpu_id, b.from_ts
    FROM breaks AS b JOIN rollup_1h AS r ON r.gpu_id = b.gpu_id AND r.ts > b.ended_ts AND r.ts + INTERVAL 1 HOUR < b.from_ts
    WHERE r.ts >= $from_ts AND r.ts < $hours_to
        AND free_ms + allocated_empty_ms + held_idle_ms + low_saturation_ms + moderate_ms + good_ms + suspect_ms + withheld_ms > 0
), unseen AS (
    SELECT * FROM breaks ANTI JOIN seen USING (holder_id, gpu_id, from_ts)
), looked AS (  -- where nobody did it may have gone on
    SELECT gpu_id, ts AS since_ts, ts + INTERVAL 1 MINUTE AS until_ts FROM rollup_1m
    WHERE ts >= $from_ts AND ts < $to_ts AND gpu_id IN (SELECT gpu_id FROM unseen)
        AND free_ms + allocated_empty_ms + held_idle_ms + low_saturation_ms + moderate_ms + good_ms + suspect_ms + withheld_ms > 0
    UNION ALL
    SELECT gpu_id, from_ts, coalesce(to_ts, $to_ts) FROM allocations WHERE gpu_id IN (SELECT gpu_id FROM unseen)
), runs AS (
    SELECT holder_id, 1 + count(*) AS runs
    FROM (
        SELECT holder_id, from_ts FROM seen
        UNION
        SELECT b.holder_id, b.from_ts FROM unseen AS b JOIN looked AS s ON s.gpu_id = b.gpu_id
            AND s.until_ts > b.ended_ts + INTERVAL 1 MINUTE AND s.since_ts < b.from_ts - INTERVAL 1 MINUTE)
    GROUP BY holder_id
), firsts AS (
    SELECT a.holder_id, bool_or(a.from_ts <= g.installed_from + INTERVAL 30 SECOND) AS from_is_bound
    FROM allocations AS a JOIN spans AS s ON s.holder_id = a.holder_id AND s.from_ts = a.from_ts
    JOIN gpus AS g USING (gpu_id)
    GROUP BY a.holder_id
)
SELECT
    h.job, h.job_name, h.user_name, h.project, h.framework, h.kind, h.command, a.gpus,
    t.gpus_at_once::BIGINT AS gpus_at_once, coalesce(r.runs, 1) AS runs, a.from_ts, b.from_is_bound, a.to_ts, a.measured_to, s.gpu_hours,
    s.used_gpu_hours, s.wasted_gpu_hours, s.utilization_ratio, s.memory_used_max_bytes,
    s.unknown_gpu_hours, s.suspect_gpu_hours, s.busy_gpu_hours, s.engine_gpu_hours, s.copied_gpu_hours, u.gpus_used, u.rung::TINYINT AS rung, f.found, s.cost, s.currency,
    s.energy_kwh, s.energy_known_ratio, s.wasted_energy_kwh, s.wasted_energy_known_ratio
FROM sums AS s
JOIN holders AS h USING (holder_id)
LEFT JOIN spans AS a USING (holder_id)
LEFT JOIN firsts AS b USING (holder_id)
LEFT JOIN runs AS r USING (holder_id)
LEFT JOIN together AS t USING (holder_id)
LEFT JOIN used AS u USING (holder_id)
LEFT JOIN said AS f USING (holder_id)
ORDER BY s.wasted_gpu_hours DESC, s.gpu_hours DESC, h.job;
