-- Samples as collector.model says them. Parameters: from_ms, to_ms (UTC ms): ends in (from_ms, to_ms].
-- Columns: uuid, node, then the fields of GpuSample; ratios are 0..1, times UTC ms; NULL: not measured.
SELECT
    uuid, node, epoch_ms(ts) AS at_ms, width_ms, rung,
    -- made from collector/metrics.py
    CAST(utilization_e4 / 10000.0 AS FLOAT) AS utilization_ratio,
    CAST(gpu_utilization_e4 / 10000.0 AS FLOAT) AS gpu_utilization_ratio,
    CAST(gpu_utilization_max_e4 / 10000.0 AS FLOAT) AS gpu_utilization_max_ratio,
    CAST(gpu_busy_e4 / 10000.0 AS FLOAT) AS gpu_busy_ratio,
    CAST(memory_controller_e4 / 10000.0 AS FLOAT) AS memory_controller_ratio,
    CAST(encoder_e4 / 10000.0 AS FLOAT) AS encoder_ratio,
    CAST(decoder_e4 / 10000.0 AS FLOAT) AS decoder_ratio,
    CAST(jpeg_e4 / 10000.0 AS FLOAT) AS jpeg_ratio,
    CAST(ofa_e4 / 10000.0 AS FLOAT) AS ofa_ratio,
    CAST(graphics_active_e4 / 10000.0 AS FLOAT) AS graphics_active_ratio,
    CAST(sm_active_e4 / 10000.0 AS FLOAT) AS sm_active_ratio,
    CAST(sm_occupancy_e4 / 10000.0 AS FLOAT) AS sm_occupancy_ratio,
    CAST(tensor_active_e4 / 10000.0 AS FLOAT) AS tensor_active_ratio,
    CAST(dram_active_e4 / 10000.0 AS FLOAT) AS dram_active_ratio,
    memory_used_bytes,
    memory_reserved_bytes,
    power_mw,
    energy_mj,
    temperature_c,
    sm_clock_mhz,
    memory_clock_mhz,
    throttle_reasons,
    ecc_corrected,
    ecc_uncorrected,
    xid,
    process_count,
    -- made to here
    flags
FROM samples_all JOIN gpus USING (gpu_id)
WHERE ts > epoch_ms(CAST($from_ms AS BIGINT)) AND ts <= epoch_ms(CAST($to_ms AS BIGINT))
ORDER BY ts, uuid;
