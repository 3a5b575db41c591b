-- Notes what was seen of the job after a site's own command. Parameters: intent, at_ms (UTC ms), outcome (done, failed).
UPDATE hook_acts SET settled_at = epoch_ms(CAST($at_ms AS BIGINT)), outcome = $outcome
WHERE intent = $intent AND outcome IS NULL;
