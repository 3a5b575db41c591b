-- Every measure of each GPU of one job while the job held it, step by step, from raw samples.
--
-- @param job text: the job's id
-- @param from_ts minute: start of the window
-- @param to_ts minute: end of the window, exclusive
-- @param step_s step: length of a step
-- @column ts timestamp: start of the step
-- @column uuid text: the GPU
-- @column node text: its machine
-- @column gpu_index integer: its index there
-- @column gpu_place text: what it is called there; of a MIG instance with profile and number (0/1g.10gb#7)
-- @column share double (fraction): how much of the GPU the job was given
-- @column utilization_ratio double (ratio): on the best rung there is
-- @column rung tinyint: the lowest rung that went in (1 GPU utilization: an upper bound; 3 SM active)
-- @column gpu_utilization_ratio double (ratio): share of time in which any kernel ran
-- @column gpu_utilization_max_ratio double (ratio): its highest sub-second value
-- @column gpu_busy_ratio double (ratio): share of the sub-second samples above zero
-- @column memory_controller_ratio double (ratio): share of time in which memory was read or written
-- @column encoder_ratio double (ratio): of the video encoder
-- @column decoder_ratio double (ratio): of the video decoder
-- @column graphics_active_ratio double (ratio): of the graphics or compute engine
-- @column sm_active_ratio double (ratio): share of SMs with a warp resident
-- @column sm_occupancy_ratio double (ratio): resident warps over the most there can be
-- @column tensor_active_ratio double (ratio): of the tensor pipes
-- @column dram_active_ratio double (ratio): of the memory interface
-- @column memory_used_bytes double (bytes): used
-- @column memory_used_max_bytes bigint (bytes): the most used
-- @column power_w double (W): drawn
-- @column temperature_c double (°C): of the GPU
-- @column sm_clock_mhz double (MHz): of the SMs
-- @column memory_clock_mhz double (MHz): of the memory
-- @column process_count smallint: the most processes
-- @null not measured; a step without samples has no row
WITH given AS (
    SELECT a.gpu_id, a.share, greatest(a.from_ts, $from_ts) AS held_from, least(coalesce(a.to_ts, $to_ts), $to_ts) AS held_to
    FROM allocations AS a JOIN holders AS h USING (holder_id)
    WHERE h.job = $job AND a.from_ts < $to_ts AND (a.to_ts IS NULL OR a.to_ts > $from_ts)
), means AS (
    SELECT
        step_start(s.ts - to_milliseconds(width_ms // 2), $from_ts, $step_s) AS ts, s.gpu_id, max(v.share) AS share,
        avg(utilization_e4) / 10000.0 AS utilization_ratio, min(rung) FILTER (WHERE utilization_e4 IS NOT NULL) AS rung,
        -- made from collector/metrics.py
        avg(gpu_utilization_e4) / 10000.0 AS gpu_utilization_ratio,
        max(gpu_utilization_max_e4) / 10000.0 AS gpu_utilization_max_ratio,
        avg(gpu_busy_e4) / 10000.0 AS gpu_busy_ratio,
        avg(memory_controller_e4) / 10000.0 AS memory_controller_ratio,
        avg(encoder_e4) / 10000.0 AS encoder_ratio,
        avg(decoder_e4) / 10000.0 AS decoder_ratio,
        avg(graphics_active_e4) / 10000.0 AS graphics_active_ratio,
        avg(sm_active_e4) / 10000.0 AS sm_active_ratio,
        avg(sm_occupancy_e4) / 10000.0 AS sm_occupancy_ratio,
        avg(tensor_active_e4) / 10000.0 AS tensor_active_ratio,
        avg(dram_active_e4) / 10000.0 AS dram_active_ratio,
        avg(memory_used_bytes) AS memory_used_bytes,
        max(memory_used_bytes) AS memory_used_max_bytes,
        avg(power_mw) / 1000.0 AS power_w,
        avg(temperature_c) AS temperature_c,
        avg(sm_clock_mhz) AS sm_clock_mhz,
        avg(memory_clock_mhz) AS memory_clock_mhz,
        max(process_count) AS process_count
        -- made to here
    FROM samples_all AS s
    JOIN given AS v ON v.gpu_id = s.gpu_id AND s.ts > v.held_from AND s.ts <= v.held_to
    WHERE s.ts > $from_ts AND s.ts <= $to_ts
    GROUP BY ALL
)
SELECT m.ts, g.uuid, g.node, g.gpu_index,
    gpu_place(g.gpu_index, g.uuid, g.parent_uuid, g.mig_profile, g.gpu_instance, g.compute_instance) AS gpu_place,
    m.* EXCLUDE (ts, gpu_id)
FROM means AS m
JOIN gpus AS g USING (gpu_id)
ORDER BY m.ts, g.node, g.gpu_index, g.uuid;
