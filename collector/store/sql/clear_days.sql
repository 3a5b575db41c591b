-- Removes days of a range from rollup_1d, so that they can be made anew.
-- Parameters: from_ms, to_ms (UTC ms, half-open, whole days), gpu_ids (INTEGER[], NULL: all GPUs).
DELETE FROM rollup_1d
WHERE ts >= epoch_ms(CAST($from_ms AS BIGINT)) AND ts < epoch_ms(CAST($to_ms AS BIGINT))
  AND gpu_id IN (SELECT gpu_id FROM gpus WHERE $gpu_ids IS NULL OR gpu_id IN (SELECT unnest($gpu_ids)));
