-- Ends the open intrusions of a GPU by a process at to_ms (UTC ms). Parameters: to_ms, gpu_id, process_id.
UPDATE intrusions SET to_ts = greatest(from_ts, epoch_ms(CAST($to_ms AS BIGINT)))
WHERE to_ts IS NULL AND gpu_id = $gpu_id AND process_id = $process_id;
