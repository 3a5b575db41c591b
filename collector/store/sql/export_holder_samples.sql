-- What holders of shared GPUs did. Parameters: from_ms, to_ms (UTC ms): ends in (from_ms, to_ms].
-- Columns: uuid, job, at_ms, width_ms, gpu_utilization_ratio (0..1), memory_used_bytes; times UTC ms; NULL: not told.
SELECT
    uuid, job, epoch_ms(ts) AS at_ms, width_ms, CAST(gpu_utilization_e4 / 10000.0 AS FLOAT) AS gpu_utilization_ratio,
    memory_used_bytes
FROM holder_samples
JOIN gpus USING (gpu_id)
JOIN holders USING (holder_id)
WHERE ts > epoch_ms(CAST($from_ms AS BIGINT)) AND ts <= epoch_ms(CAST($to_ms AS BIGINT))
ORDER BY ts, uuid, job;
