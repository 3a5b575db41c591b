-- When the last sample of each GPU in a span ended that lies in the hot table.
-- Parameters: after_ms, to_ms (UTC ms: ends in (after_ms, to_ms]; to_ms NULL: without end).
-- Rows: gpu_id, its end (UTC ms).
SELECT gpu_id, epoch_ms(max(ts))
FROM samples
WHERE ts > epoch_ms(CAST($after_ms AS BIGINT)) AND ($to_ms IS NULL OR ts <= epoch_ms(CAST($to_ms AS BIGINT)))
GROUP BY gpu_id;
