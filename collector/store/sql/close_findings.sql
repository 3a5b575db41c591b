-- Closes findings. Parameters: finding_ids (INTEGER[]), at_ms (UTC ms).
UPDATE findings SET closed_at = epoch_ms(CAST($at_ms AS BIGINT))
WHERE finding_id IN (SELECT unnest($finding_ids));
