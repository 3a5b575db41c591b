-- Ends what was unclear of a process's claim at to_ms (UTC ms). Parameters: to_ms, process_id, reason.
UPDATE unclear_claims SET to_ts = greatest(from_ts, epoch_ms(CAST($to_ms AS BIGINT)))
WHERE to_ts IS NULL AND process_id = $process_id AND reason = $reason;
