-- Each GPU at the newest tick: what it does, for whom, and since when.
--
-- A GPU that does nothing has done so since the last minute in which it did anything else, or since it was given to those who
-- hold it now, if that is later: hours would hide an hour's few minutes of use. Of that time 95% must be measured, as findings ask;
-- else it counts from the end of the last minute that was not. An empty GPU was idle too: held-idle goes on over both. One
-- that works has been mostly in its state: by minutes for two hours, by hours before.
--
-- @param node text = NULL: only this node
-- @param project text = NULL: only what this project held
-- @param user text = NULL: only what this user held
-- @param model text = NULL: only GPUs of this model
-- @mark minutes_to rollup_1m
-- @mark hours_to rollup_1h
-- @column uuid text: the GPU
-- @column node text: its machine
-- @column gpu_index integer: its index there
-- @column gpu_place text: what it is called there; of a MIG instance with profile and number (0/1g.10gb#7)
-- @column model text: its model
-- @column mig_profile text: the profile of a MIG instance
-- @column state text: its state at its newest sample; unknown when that is over two ticks old, or nothing computes and its job is suspended; drained, down or reserved where its node is given to nobody
-- @column state_reason text: why it is given to nobody, or why nobody knows whether it is
-- @column rhythm text: rarely-used, where each who holds it now was found to use it so; what its state of this tick then is one look at
-- @column rhythm_since timestamp: since when it has been so, at least
-- @column state_since timestamp: since when it has been so; its newest sample where it has been silent since
-- @column state_since_is_bound boolean: since then at least: 24 hours are looked at, and before it nothing was recorded, or too little was measured
-- @column user_name text: who holds it, comma-separated when shared
-- @column project text: for which project
-- @column job text: the job's id
-- @column job_name text: the job's name
-- @column framework text: the likeliest framework
-- @column utilization_ratio double (ratio): on the best rung there is
-- @column engines_ratio double (ratio): what the busiest engine beside the SMs did (encoder, decoder, JPEG, optical flow), if that is more than noise
-- @column copies_ratio double (ratio): share of time or cycles with memory reads or writes, where there were any and nothing computed
-- @column rung tinyint: which rung (1 GPU utilization: an upper bound; 2 graphics engine; 3 SM active)
-- @column gpu_utilization_ratio double (ratio): share of time in which any kernel ran
-- @column sm_active_ratio double (ratio): share of SMs with a warp resident
-- @column memory_used_bytes bigint (bytes): used
-- @column memory_total_bytes bigint (bytes): there
-- @column power_w double (W): drawn
-- @column temperature_c smallint (°C): of the GPU
-- @column process_count smallint: processes on it
-- @column as_of timestamp: its newest sample
-- @never_null uuid, node, state
-- @null state_reason: there is none; rhythm: none was found; not measured, or too long ago to be so now; user_name to framework: nobody holds it; engines_ratio: no engine worked; copies_ratio: it computes, or copies nothing; state_since: the newest whole minute was in another state, or it was never measured
WITH now_rows AS (
    SELECT * REPLACE (CASE
        WHEN state IN ('allocated-empty', 'held-idle') AND job IN (
            SELECT m.job FROM manager_jobs AS m WHERE m.state = 'paused' AND m.ended_at IS NULL) THEN 'unknown'
        WHEN state = 'held-idle' AND NOT is_held THEN 'suspect' ELSE state END AS state)
    FROM gpus_at_newest_tick($node, $project, $user, $model)
), holds AS (
    SELECT a.gpu_id, min(a.from_ts) AS from_ts
    FROM allocations AS a
    SEMI JOIN (
        SELECT h.gpu_id, h.holder_id FROM allocations AS h JOIN now_rows AS n USING (gpu_id)
        WHERE still_held(h.to_ts, n.ts, n.width_ms) OR h.to_ts >= n.as_of
    ) AS h ON h.gpu_id = a.gpu_id AND h.holder_id = a.holder_id
    GROUP BY a.gpu_id
), held AS (  -- since when those who hold it now do, where that is known
    SELECT n.gpu_id, n.state, n.state IN ('low-saturation', 'moderate', 'good') AS works, CASE
        WHEN h.from_ts > greatest(g.installed_from + INTERVAL 30 SECOND, $minutes_to - INTERVAL 24 HOUR) THEN h.from_ts END AS from_ts, g.installed_from
    FROM now_rows AS n JOIN gpus AS g USING (gpu_id) LEFT JOIN holds AS h USING (gpu_id)
), blocks AS (  -- of what works the last two or three hours by minutes; all else by hours, but for the one that is not over
    SELECT *, ts + INTERVAL 1 MINUTE AS end_ts
    FROM rollup_1m
    WHERE ts >= least($hours_to, time_bucket(INTERVAL 1 HOUR, $minutes_to - INTERVAL 2 HOUR))
        AND (ts >= $hours_to OR gpu_id IN (SELECT gpu_id FROM held WHERE works))
    UNION ALL
    SELECT *, ts + INTERVAL 1 HOUR FROM rollup_1h
    WHERE ts >= $minutes_to - INTERVAL 24 HOUR AND ts < $hours_to AND (
        ts < time_bucket(INTERVAL 1 HOUR, $minutes_to - INTERVAL 2 HOUR) OR gpu_id IN (SELECT gpu_id FROM held WHERE NOT works))
), told AS (
    SELECT b.gpu_id, b.ts, b.end_ts, free_ms + allocated_empty_ms + held_idle_ms + low_saturation_ms + moderate_ms + good_ms
            + suspect_ms + withheld_ms AS known_ms, CASE h.state
            WHEN 'unknown' THEN known_ms >= 30000
            WHEN 'free' THEN known_ms > free_ms
            WHEN 'suspect' THEN known_ms > suspect_ms
            WHEN 'allocated-empty' THEN known_ms > allocated_empty_ms
            WHEN 'held-idle' THEN known_ms > allocated_empty_ms + held_idle_ms
            ELSE h.state <> main_state(free_ms, allocated_empty_ms, held_idle_ms, low_saturation_ms, moderate_ms, good_ms,
                suspect_ms, withheld_ms, unknown_ms) END AS is_other
    FROM blocks AS b JOIN held AS h USING (gpu_id)
), looked AS (  -- the hours of which each minute is looked at: the newest with something else, and the hold's first
    SELECT gpu_id, max(ts) AS ts FROM told SEMI JOIN (SELECT gpu_id FROM held WHERE NOT works) USING (gpu_id)
    WHERE is_other AND ts < $hours_to GROUP BY gpu_id
    UNION
    SELECT gpu_id, time_bucket(INTERVAL 1 HOUR, from_ts) FROM held WHERE from_ts < $hours_to AND NOT works
), minutes AS (
    SELECT m.gpu_id, m.ts, m.ts + INTERVAL 1 MINUTE AS end_ts, free_ms + allocated_empty_ms + held_idle_ms + low_saturation_ms
            + moderate_ms + good_ms + suspect_ms + withheld_ms AS known_ms, CASE h.state
            WHEN 'unknown' THEN known_ms >= 30000
            WHEN 'free' THEN known_ms > free_ms
            WHEN 'suspect' THEN known_ms > suspect_ms
            WHEN 'allocated-empty' THEN known_ms > allocated_empty_ms
            ELSE known_ms > allocated_empty_ms + held_idle_ms END AS is_other
    FROM rollup_1m AS m
    JOIN looked AS l ON l.gpu_id = m.gpu_id AND m.ts >= l.ts AND m.ts < l.ts + INTERVAL 1 HOUR
    JOIN held AS h ON h.gpu_id = m.gpu_id
    WHERE m.ts >= $minutes_to - INTERVAL 25 HOUR AND m.ts < $hours_to
), spans AS (
    SELECT * FROM minutes
    UNION ALL
    SELECT t.* FROM told AS t ANTI JOIN looked AS l ON l.gpu_id = t.gpu_id AND l.ts = t.ts
), newest AS (
    SELECT gpu_id, max(end_ts) FILTER (is_other) AS other_ts, min(ts) AS oldest_ts, max(end_ts) AS newest_ts
    FROM spans GROUP BY gpu_id
), began AS (
    SELECT h.gpu_id, h.state, o.other_ts >= o.newest_ts AS is_new, greatest(o.other_ts, h.from_ts) AS began_ts,
        coalesce(began_ts, greatest(o.oldest_ts, h.installed_from)) AS from_ts
    FROM held AS h JOIN newest AS o USING (gpu_id)
), known AS (
    SELECT b.gpu_id, b.from_ts, b.began_ts, b.is_new,
        sum(s.known_ms) >= 0.95 * (epoch_ms($minutes_to) - epoch_ms(b.from_ts)) OR b.state = 'unknown' AS is_covered
    FROM began AS b LEFT JOIN spans AS s ON s.gpu_id = b.gpu_id AND s.end_ts > b.from_ts
    GROUP BY b.gpu_id, b.state, b.from_ts, b.began_ts, b.is_new
), doubted AS (
    SELECT gpu_id, ts, any_value(end_ts) AS end_ts, sum(known_ms) < epoch_ms(any_value(end_ts)) - epoch_ms(ts) AS is_holed
    FROM told SEMI JOIN (SELECT gpu_id FROM known WHERE NOT is_covered) USING (gpu_id)
    GROUP BY gpu_id, ts
), holed AS (
    SELECT gpu_id, max(ts) AS ts FROM doubted WHERE is_holed GROUP BY gpu_id
), unbroken AS (
    SELECT gpu_id, max(ts) FILTER (is_first) AS ts
    FROM (
        SELECT gpu_id, ts, coalesce(lag(end_ts) OVER (PARTITION BY gpu_id ORDER BY ts) < ts, true) AS is_first
        FROM (
            SELECT gpu_id, ts, end_ts FROM doubted WHERE NOT is_holed
            UNION ALL
            SELECT m.gpu_id, m.ts, m.ts + INTERVAL 1 MINUTE
            FROM rollup_1m AS m
            JOIN holed AS h ON h.gpu_id = m.gpu_id AND h.ts = time_bucket(INTERVAL 1 HOUR, m.ts) AND h.ts < $hours_to
            WHERE m.ts >= $minutes_to - INTERVAL 25 HOUR
            GROUP BY m.gpu_id, m.ts HAVING sum(m.unknown_ms) <= 30000))
    GROUP BY gpu_id
), since AS (
    SELECT k.gpu_id, k.began_ts IS NULL OR NOT is_covered AS is_bound,
        CASE WHEN k.is_new THEN NULL WHEN is_covered THEN k.from_ts ELSE greatest(u.ts, k.from_ts) END AS ts
    FROM known AS k LEFT JOIN unbroken AS u USING (gpu_id)
), measured AS (  -- what is new enough to be so now
    SELECT
        gpu_id, utilization_e4, gpu_utilization_e4, sm_active_e4, memory_used_bytes, power_mw,
        engines_e4, temperature_c, process_count, CASE WHEN is_copying(
            busiest_of(utilization_e4, gpu_utilization_e4, graphics_active_e4, sm_active_e4, engines_e4),
            traffic_e4) THEN traffic_e4 / 10000.0 END AS copies_ratio
    FROM now_rows
    WHERE ts >= as_of - to_milliseconds(2 * greatest(width_ms, 10000))
        AND ts >= ticked_at - to_milliseconds(3 * greatest(width_ms, 10000))
)
SELECT
    n.uuid, n.node, n.gpu_index,
    gpu_place(g.gpu_index, g.uuid, g.parent_uuid, g.mig_profile, g.gpu_instance, g.compute_instance) AS gpu_place,
    n.model, n.mig_profile, n.state, n.withheld_reason AS state_reason, n.rhythm, n.rhythm_from AS rhythm_since,
    CASE
        WHEN n.state = n.withheld THEN n.withheld_from
        WHEN m.gpu_id IS NULL THEN n.ts
        ELSE s.ts
    END AS state_since,
    coalesce(n.state <> coalesce(n.withheld, '') AND m.gpu_id IS NOT NULL AND s.ts IS NOT NULL AND s.is_bound, false) AS state_since_is_bound,
    n.user_name, n.project, n.job, n.job_name, n.framework, m.utilization_e4 / 10000.0 AS utilization_ratio,
    CASE WHEN m.engines_e4 > 100 THEN m.engines_e4 / 10000.0 END AS engines_ratio, m.copies_ratio,
    CASE WHEN m.gpu_id IS NOT NULL THEN n.rung END AS rung,
    m.gpu_utilization_e4 / 10000.0 AS gpu_utilization_ratio, m.sm_active_e4 / 10000.0 AS sm_active_ratio,
    m.memory_used_bytes, n.memory_total_bytes, m.power_mw / 1000.0 AS power_w, m.temperature_c, m.process_count,
    n.ts AS as_of
FROM now_rows AS n
JOIN gpus AS g USING (gpu_id)
LEFT JOIN measured AS m USING (gpu_id)
LEFT JOIN since AS s USING (gpu_id)
ORDER BY n.node, n.gpu_index, n.uuid;
