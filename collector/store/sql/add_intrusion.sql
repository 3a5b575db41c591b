-- Adds an intrusion of the past, and joins it with those of the same process and GPU that it touches or overlaps.
-- Parameters: gpu_id, process_id, from_ms, to_ms (UTC ms; NULL: it lasts).
MERGE INTO intrusions AS known
USING (SELECT epoch_ms(CAST($from_ms AS BIGINT)) AS from_ts, epoch_ms(CAST($to_ms AS BIGINT)) AS to_ts) AS told
ON known.gpu_id = $gpu_id AND known.process_id = $process_id
    AND (known.to_ts IS NULL OR known.to_ts >= told.from_ts) AND (told.to_ts IS NULL OR known.from_ts <= told.to_ts)
WHEN MATCHED THEN UPDATE SET
    from_ts = least(known.from_ts, told.from_ts),
    to_ts = CASE WHEN known.to_ts IS NOT NULL AND told.to_ts IS NOT NULL THEN greatest(known.to_ts, told.to_ts) END
WHEN NOT MATCHED THEN INSERT (gpu_id, process_id, from_ts, to_ts)
    VALUES ($gpu_id, $process_id, told.from_ts, told.to_ts);
