-- Closes a foreign job's open checkpoint. Parameters: job, at_ms (UTC ms), ended_as (resumed, failed, gone).
UPDATE checkpoints SET ended_at = epoch_ms(CAST($at_ms AS BIGINT)), ended_as = $ended_as
WHERE job = $job AND ended_at IS NULL;
