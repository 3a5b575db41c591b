-- Ends at to_ms (UTC ms) what is withheld of the GPUs gpu_ids (INTEGER[]).
UPDATE withheld SET to_ts = greatest(from_ts, epoch_ms(CAST($to_ms AS BIGINT)))
WHERE to_ts IS NULL AND gpu_id IN (SELECT unnest(CAST($gpu_ids AS INTEGER[])));
