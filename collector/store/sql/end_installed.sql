-- Ends a GPU's installed time. Parameters: uuid, to_ms (UTC ms), at_last_sample (true: at the end of its newest
-- sample, where it has one that ended before to_ms).
UPDATE gpus SET installed_to = greatest(installed_from, CASE
    WHEN $at_last_sample THEN least(epoch_ms(CAST($to_ms AS BIGINT)),
        coalesce((SELECT max(ts) FROM latest WHERE latest.gpu_id = gpus.gpu_id), epoch_ms(CAST($to_ms AS BIGINT))))
    ELSE epoch_ms(CAST($to_ms AS BIGINT)) END)
WHERE uuid = $uuid;
