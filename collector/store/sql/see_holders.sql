-- Moves last_seen of the holders in the registered Arrow table "closing" to at_ms (UTC ms), never back.
UPDATE holders SET last_seen = epoch_ms(CAST($at_ms AS BIGINT))
WHERE last_seen < epoch_ms(CAST($at_ms AS BIGINT)) AND holder_id IN (SELECT holder_id FROM closing);
