-- Removes hours of a range from worked_minutes, so that they can be made again.
-- Parameters: from_ms, to_ms (UTC ms, half-open), gpu_ids (INTEGER[], NULL: all GPUs).
DELETE FROM worked_minutes
WHERE ts >= epoch_ms(CAST($from_ms AS BIGINT)) AND ts < epoch_ms(CAST($to_ms AS BIGINT))
  AND gpu_id IN (SELECT gpu_id FROM gpus WHERE $gpu_ids IS NULL OR gpu_id IN (SELECT unnest($gpu_ids)));
