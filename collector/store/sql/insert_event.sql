-- Adds an event unless it is there. Parameters: at_ms (UTC ms), gpu_id, kind, detail.
INSERT INTO events
SELECT epoch_ms(CAST($at_ms AS BIGINT)), $gpu_id, $kind, $detail
WHERE NOT EXISTS (
    FROM events
    WHERE ts = epoch_ms(CAST($at_ms AS BIGINT)) AND gpu_id = $gpu_id AND kind = $kind AND detail = $detail
);
