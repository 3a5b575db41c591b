-- Adds the newest row of the registered Arrow table "incoming" for GPUs without a row in latest.
INSERT INTO latest BY NAME
SELECT
    ts, gpu_id, width_ms, rung, utilization_e4, gpu_utilization_e4, graphics_active_e4, sm_active_e4,
    memory_used_bytes, power_mw, temperature_c, process_count, flags
FROM incoming
JOIN (SELECT gpu_id, max(ts) AS ts FROM incoming GROUP BY gpu_id) AS newest USING (gpu_id, ts)
WHERE gpu_id NOT IN (SELECT gpu_id FROM latest)
QUALIFY row_number() OVER (PARTITION BY gpu_id) = 1;
