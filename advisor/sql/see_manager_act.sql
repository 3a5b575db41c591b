-- Notes when an outcome was seen first, and how the run was then; a run that is another since is seen anew.
-- Parameters: intent, at_ms (UTC ms), body (JSON).
UPDATE manager_acts SET seen_at = epoch_ms(CAST($at_ms AS BIGINT)), after_body = $body
WHERE intent = $intent AND outcome IS NULL;
