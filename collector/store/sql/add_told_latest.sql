-- Copies the newest row of the registered Arrow table "incoming" for GPUs of which none as new is known.
INSERT INTO latest_apart BY NAME
SELECT
    told.ts, gpu_id, told.width_ms, told.rung, told.utilization_e4, told.gpu_utilization_e4,
    told.graphics_active_e4, told.sm_active_e4, told.memory_used_bytes, told.power_mw, told.temperature_c,
    told.process_count, told.flags,
    greatest(told.encoder_e4, told.decoder_e4, told.jpeg_e4, told.ofa_e4) AS engines_e4,
    greatest(told.memory_controller_e4, told.dram_active_e4) AS traffic_e4
FROM incoming AS told
JOIN (SELECT gpu_id, max(ts) AS ts FROM incoming GROUP BY gpu_id) AS newest USING (gpu_id, ts)
LEFT JOIN latest USING (gpu_id)
WHERE latest.ts IS NULL OR latest.ts < told.ts
QUALIFY row_number() OVER (PARTITION BY gpu_id) = 1;
