-- Adds a gap unless it is there. Parameters: source, node, gpu_id, from_ms, to_ms (UTC ms), reason.
INSERT INTO gaps
SELECT $source, $node, $gpu_id, epoch_ms(CAST($from_ms AS BIGINT)), epoch_ms(CAST($to_ms AS BIGINT)), $reason
WHERE NOT EXISTS (
    FROM gaps
    WHERE source = $source AND gpu_id IS NOT DISTINCT FROM $gpu_id AND reason = $reason
      AND from_ts <= epoch_ms(CAST($from_ms AS BIGINT)) AND to_ts >= epoch_ms(CAST($to_ms AS BIGINT))
);
