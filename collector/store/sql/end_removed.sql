-- Ends the time of a GPU that is told to have been taken out, unless it was measured after that. Parameters: uuid,
-- to_ms (UTC ms). Since when it was there is known only once the samples are in.
UPDATE gpus SET installed_to = epoch_ms(CAST($to_ms AS BIGINT))
WHERE uuid = $uuid AND installed_to IS NULL AND NOT EXISTS (
    SELECT 1 FROM latest WHERE latest.gpu_id = gpus.gpu_id AND latest.ts > epoch_ms(CAST($to_ms AS BIGINT)));
