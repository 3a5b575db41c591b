-- Moves a mark forward, never back. Parameters: name, complete_to_ms (UTC ms).
INSERT INTO watermarks (name, complete_to) VALUES ($name, epoch_ms(CAST($complete_to_ms AS BIGINT)))
ON CONFLICT (name) DO UPDATE SET complete_to = greatest(complete_to, excluded.complete_to);
