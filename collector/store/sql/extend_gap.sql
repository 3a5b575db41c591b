-- Moves the end of a gap that goes on. Parameters: source, node, gpu_id, from_ms, to_ms (UTC ms), reason.
UPDATE gaps SET to_ts = epoch_ms(CAST($to_ms AS BIGINT))
WHERE source = $source AND gpu_id IS NOT DISTINCT FROM $gpu_id AND node IS NOT DISTINCT FROM $node
  AND reason = $reason AND from_ts = epoch_ms(CAST($from_ms AS BIGINT));
