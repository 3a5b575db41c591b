-- Notes what came of what was asked. Parameters: intent, at_ms (UTC ms), outcome (done, failed).
UPDATE manager_acts SET settled_at = epoch_ms(CAST($at_ms AS BIGINT)), outcome = $outcome
WHERE intent = $intent AND outcome IS NULL;
