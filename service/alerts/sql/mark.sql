-- Notes since when something is watched; an earlier note stays. Parameters: watched, at_ms (UTC ms).
INSERT INTO alert_marks VALUES ($watched, epoch_ms(CAST($at_ms AS BIGINT))) ON CONFLICT (name) DO NOTHING;
