-- Every GPU's source, and what it was before it was cut anew, oldest first. No parameters.
-- Columns: gpu_id, uuid, source, cut_of (NULL: it has its UUID still), to_ms (UTC ms: when it was cut anew, or was gone
-- before that).
SELECT gpu_id, uuid, source, cut_of, epoch_ms(installed_to) AS to_ms
FROM gpus
ORDER BY installed_to NULLS LAST, gpu_id;
