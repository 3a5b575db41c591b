-- Every measure of one GPU, step by step, from raw samples. A step without samples has no row.
--
-- @param uuid text: the GPU
-- @param from_ts minute: start of the window
-- @param to_ts minute: end of the window, exclusive
-- @param step_s step: length of a step; whole hours and days are read from their roll-ups
-- @mark hours_to rollup_1h
-- @mark days_to rollup_1d
-- @column ts timestamp: start of the step
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
-- @column state text: the state it was in longest
-- @column holders text: who held it, comma-separated
-- @null not measured; holders: nobody held it; state: the step is not rolled up yet
WITH wanted AS (
    SELECT gpu_id FROM gpus WHERE $uuid IN (uuid, cut_of)
), means AS (
    SELECT
        step_start(ts - to_milliseconds(width_ms // 2), $from_ts, $step_s) AS ts,
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
    FROM samples_all
    WHERE gpu_id IN (SELECT gpu_id FROM wanted) AND samples_all.ts > $from_ts AND samples_all.ts <= $to_ts
    GROUP BY ALL
), states AS (
    SELECT step_start(ts, $from_ts, $step_s) AS ts, main_state(sum(free_ms), sum(allocated_empty_ms),
        sum(held_idle_ms), sum(low_saturation_ms), sum(moderate_ms), sum(good_ms), sum(suspect_ms),
        sum(withheld_ms), sum(unknown_ms)) AS state
    FROM usage($from_ts, $to_ts, hours_for($step_s, $hours_to), days_for($step_s, $days_to))
    WHERE gpu_id IN (SELECT gpu_id FROM wanted)
    GROUP BY ALL
), held AS (
    SELECT s.ts, string_agg(DISTINCT coalesce(h.user_name, h.job), ', ' ORDER BY coalesce(h.user_name, h.job)) AS holders
    FROM steps($from_ts, $to_ts, $step_s) AS s
    JOIN allocations AS a ON a.from_ts < s.ts + to_milliseconds(s.step_ms) AND (a.to_ts IS NULL OR a.to_ts > s.ts)
    JOIN holders AS h USING (holder_id)
    WHERE a.gpu_id IN (SELECT gpu_id FROM wanted)
    GROUP BY s.ts
)
SELECT m.*, s.state, h.holders
FROM means AS m
LEFT JOIN states AS s USING (ts)
LEFT JOIN held AS h USING (ts)
ORDER BY m.ts;
