-- Adds one thing that was not judged. Parameters: gpu_id, holder_id (NULL: whoever holds it), verdict, kinds
-- (VARCHAR[]), reason, at_ms (UTC ms).
INSERT INTO unjudged (gpu_id, holder_id, verdict, kinds, reason, as_of)
VALUES ($gpu_id, $holder_id, $verdict, CAST($kinds AS VARCHAR[]), $reason, epoch_ms(CAST($at_ms AS BIGINT)));
