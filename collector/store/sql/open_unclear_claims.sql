-- Notes claims that cannot be read, from from_ms (UTC ms). Parameters: from_ms and, equally long lists:
-- process_ids, reasons.
INSERT INTO unclear_claims (process_id, reason, from_ts)
SELECT unnest($process_ids), unnest(CAST($reasons AS VARCHAR[])), epoch_ms(CAST($from_ms AS BIGINT));
