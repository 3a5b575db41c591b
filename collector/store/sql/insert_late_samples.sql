-- Appends those rows of the registered Arrow table "incoming" (columns of the table samples) that no stored
-- sample equals in GPU and time. Parameters: from_ms, to_ms (UTC ms): the first and last time in it.
-- Rows: gpu_id, start and end of each sample added, UTC ms.
INSERT INTO samples BY NAME
SELECT incoming.* FROM incoming
ANTI JOIN (
    SELECT gpu_id, ts FROM samples_all
    WHERE ts >= epoch_ms(CAST($from_ms AS BIGINT)) AND ts <= epoch_ms(CAST($to_ms AS BIGINT))
) AS stored USING (gpu_id, ts)
RETURNING gpu_id, epoch_ms(ts) - width_ms, epoch_ms(ts);
