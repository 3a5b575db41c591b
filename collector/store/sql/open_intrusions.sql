-- Begins intrusions at from_ms (UTC ms). Parameters: from_ms and, equally long lists: gpu_ids, process_ids.
INSERT INTO intrusions (gpu_id, process_id, from_ts)
SELECT unnest($gpu_ids), unnest($process_ids), epoch_ms(CAST($from_ms AS BIGINT));
