-- Appends the registered Arrow table "incoming" (at_ms in UTC ms, and the columns of process_samples).
INSERT INTO process_samples (ts, gpu_id, process_id, width_ms, process_type, memory_used_bytes, sm_e4)
SELECT epoch_ms(at_ms), gpu_id, process_id, width_ms, process_type, memory_used_bytes, sm_e4
FROM incoming;
