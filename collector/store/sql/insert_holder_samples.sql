-- Appends the registered Arrow table "incoming" (at_ms in UTC ms, and the columns of holder_samples).
INSERT INTO holder_samples (ts, gpu_id, holder_id, width_ms, gpu_utilization_e4, memory_used_bytes)
SELECT epoch_ms(at_ms), gpu_id, holder_id, width_ms, gpu_utilization_e4, memory_used_bytes
FROM incoming;
