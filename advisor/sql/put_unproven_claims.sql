-- Notes what a launcher claims without proof, of GPUs that are known here; the newest word replaces the one before.
-- Parameters: job, user_name, gpus (a list of UUIDs), at_ms (UTC ms), why.
INSERT INTO unproven_claims
SELECT
    $job, uuid, $user_name, epoch_ms(CAST($at_ms AS BIGINT)), epoch_ms(CAST($at_ms AS BIGINT)), $why
FROM gpus
WHERE uuid IN (SELECT unnest(CAST($gpus AS VARCHAR[])))
ON CONFLICT (job, gpu_uuid) DO UPDATE SET last_at = excluded.last_at, why = excluded.why;
