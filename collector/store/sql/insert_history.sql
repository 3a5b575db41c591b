-- Appends those rows of the registered Arrow table "incoming" (columns of the table samples) that no stored
-- sample equals in GPU and time, in the order of time. Parameters: from_ms, to_ms (UTC ms): the span of it.
INSERT INTO samples BY NAME
SELECT incoming.* FROM incoming
ANTI JOIN (
    SELECT gpu_id, ts FROM samples_all
    WHERE ts >= epoch_ms(CAST($from_ms AS BIGINT)) AND ts <= epoch_ms(CAST($to_ms AS BIGINT))
) AS stored USING (gpu_id, ts)
QUALIFY row_number() OVER (PARTITION BY gpu_id, ts) = 1
ORDER BY ts, gpu_id;
