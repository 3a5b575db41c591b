-- Has a finding of an imported past begin earlier. Parameters: finding_id, opened_ms (UTC ms).
UPDATE findings SET opened_at = epoch_ms(CAST($opened_ms AS BIGINT)) WHERE of_past AND finding_id = $finding_id;
