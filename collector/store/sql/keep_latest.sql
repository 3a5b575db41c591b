-- Copies the newest samples of a span that is about to leave the hot table.
-- Parameters: from_ms, to_ms (UTC ms, half-open; from_ms NULL: from the beginning).
INSERT INTO latest_apart BY NAME
SELECT latest.*
FROM latest
ANTI JOIN latest_apart USING (gpu_id, ts)
WHERE ($from_ms IS NULL OR ts >= epoch_ms(CAST($from_ms AS BIGINT)))
    AND ts < epoch_ms(CAST($to_ms AS BIGINT));
