-- Appends those rows of the registered Arrow table "incoming" (at_ms in UTC ms, and the columns of holder_samples) that
-- no stored row equals in GPU, holder and time. Parameters: from_ms, to_ms (UTC ms): the span of it.
INSERT INTO holder_samples (ts, gpu_id, holder_id, width_ms, gpu_utilization_e4, memory_used_bytes)
SELECT epoch_ms(at_ms), gpu_id, holder_id, width_ms, gpu_utilization_e4, memory_used_bytes
FROM incoming
ANTI JOIN (
    SELECT gpu_id, holder_id, epoch_ms(ts) AS at_ms FROM holder_samples
    WHERE ts >= epoch_ms(CAST($from_ms AS BIGINT)) AND ts <= epoch_ms(CAST($to_ms AS BIGINT))
) AS stored USING (gpu_id, holder_id, at_ms);
