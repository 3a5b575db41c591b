-- Each GPU at the newest tick: what it does, for whom, and since when.
--
-- @param node text = NULL: only this node
-- @param project text = NULL: only what this project held
-- @param user text = NULL: only what this user held
-- @param model text = NULL: only GPUs of this model
-- @mark minutes_to rollup_1m
-- @column uuid text: the GPU
-- @column node text: its machine
-- @column gpu_index integer: its index there
-- @column gpu_place text: what it is called there; of a MIG instance with profile and number (0/1g.10gb#7)
-- @column model text: its model
-- @column mig_profile text: the profile of a MIG instance
-- @column state text: its state at its newest sample; unknown when that is over two ticks old; drained, down or reserved where its node is given to nobody
-- @column state_reason text: why it is given to nobody, or why nobody knows whether it is
-- @column state_since timestamp: since when it is mostly in that state, to the minute within two hours, to the hour within 24; the oldest when longer; its newest sample where it has been silent since
-- @column state_since_is_bound boolean: it has been so for as far back as that is looked at, so since then at least
-- @column user_name text: who holds it, comma-separated when shared
-- @column project text: for which project
-- @column job text: the job's id
-- @column job_name text: the job's name
-- @column framework text: the likeliest framework
-- @column utilization_ratio double (ratio): on the best rung there is
-- @column engines_ratio double (ratio): what the busiest engine beside the SMs did (encoder, decoder, JPEG, optical flow), if that is more than noise
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
-- @null state_reason: there is none; not measured, or too long ago to be so now; user_name to framework: nobody holds it; engines_ratio: no engine worked; state_since: the newest whole minute was in another state, or it was never measured
WITH now_rows AS (
    SELECT * REPLACE (CASE WHEN state = 'held-idle' AND NOT is_held THEN 'suspect' ELSE state END AS state)
    FROM gpus_at_newest_tick($node, $project, $user, $model)
), stretches AS (
    SELECT gpu_id, ts, ts + INTERVAL 1 MINUTE AS end_ts, main_state(free_ms, allocated_empty_ms, held_idle_ms,
        low_saturation_ms, moderate_ms, good_ms, suspect_ms, withheld_ms,
        unknown_ms) AS state
    FROM rollup_1m
    WHERE ts >= time_bucket(INTERVAL 1 HOUR, $minutes_to - INTERVAL 2 HOUR)
    UNION ALL
    SELECT gpu_id, ts, ts + INTERVAL 1 HOUR, main_state(free_ms, allocated_empty_ms, held_idle_ms,
        low_saturation_ms, moderate_ms, good_ms, suspect_ms, withheld_ms,
        unknown_ms)
    FROM rollup_1h
    WHERE ts >= $minutes_to - INTERVAL 24 HOUR AND ts < time_bucket(INTERVAL 1 HOUR, $minutes_to - INTERVAL 2 HOUR)
), measured AS (
    SELECT
        n.gpu_id, l.utilization_e4, l.gpu_utilization_e4, l.sm_active_e4, l.memory_used_bytes, l.power_mw,
        l.engines_e4, l.temperature_c, l.process_count
    FROM now_rows AS n
    JOIN latest AS l USING (gpu_id)
    WHERE l.ts >= n.as_of - to_milliseconds(2 * greatest(l.width_ms, 10000)) AND l.ts >= coalesce(
        (SELECT max(ts) FROM newest_tick), n.as_of) - to_milliseconds(3 * greatest(l.width_ms, 10000))
), since AS (
    SELECT s.gpu_id, max(s.end_ts) AS newest_ts, min(s.ts) AS oldest_ts,
        max(s.end_ts) FILTER (WHERE s.state <> n.state) AS other_ts
    FROM stretches AS s JOIN now_rows AS n USING (gpu_id)
    GROUP BY s.gpu_id
)
SELECT
    n.uuid, n.node, n.gpu_index,
    gpu_place(g.gpu_index, g.uuid, g.parent_uuid, g.mig_profile, g.gpu_instance, g.compute_instance) AS gpu_place,
    n.model, n.mig_profile, n.state, n.withheld_reason AS state_reason,
    CASE
        WHEN n.state = n.withheld THEN n.withheld_from
        WHEN m.gpu_id IS NULL THEN n.ts
        WHEN s.other_ts IS NULL THEN s.oldest_ts
        WHEN s.other_ts < s.newest_ts THEN s.other_ts
    END AS state_since,
    coalesce(n.state <> coalesce(n.withheld, '') AND m.gpu_id IS NOT NULL AND s.gpu_id IS NOT NULL AND s.other_ts IS NULL, false)
        AS state_since_is_bound,
    n.user_name, n.project, n.job, n.job_name, n.framework, m.utilization_e4 / 10000.0 AS utilization_ratio,
    CASE WHEN m.engines_e4 > 100 THEN m.engines_e4 / 10000.0 END AS engines_ratio,
    CASE WHEN m.gpu_id IS NOT NULL THEN n.rung END AS rung,
    m.gpu_utilization_e4 / 10000.0 AS gpu_utilization_ratio, m.sm_active_e4 / 10000.0 AS sm_active_ratio,
    m.memory_used_bytes, n.memory_total_bytes, m.power_mw / 1000.0 AS power_w, m.temperature_c, m.process_count,
    n.ts AS as_of
FROM now_rows AS n
JOIN gpus AS g USING (gpu_id)
LEFT JOIN measured AS m USING (gpu_id)
LEFT JOIN since AS s USING (gpu_id)
ORDER BY n.node, n.gpu_index, n.uuid;
