-- Moves last_seen of every holder with an open allocation to at_ms (UTC ms).
UPDATE holders SET last_seen = epoch_ms(CAST($at_ms AS BIGINT))
WHERE last_seen < epoch_ms(CAST($at_ms AS BIGINT))
  AND holder_id IN (SELECT holder_id FROM allocations WHERE to_ts IS NULL);
