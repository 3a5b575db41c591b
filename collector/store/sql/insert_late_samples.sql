-- Appends those rows of the registered Arrow table "incoming" (columns of the table samples) that no stored
-- sample equals in GPU and time. Before kept_ms (UTC ms, NULL: nothing was ever let go of) samples are only
-- for hours that have no roll-up yet, or all samples of it: the others are complete.
-- Parameters: from_ms, to_ms (UTC ms): the first and last time in it; kept_ms.
-- Rows: gpu_id, start and end of each sample added, UTC ms.
INSERT INTO samples BY NAME
SELECT incoming.* FROM incoming
ANTI JOIN (
    SELECT gpu_id, ts FROM samples_all
    WHERE ts >= epoch_ms(CAST($from_ms AS BIGINT)) AND ts <= epoch_ms(CAST($to_ms AS BIGINT))
) AS stored USING (gpu_id, ts)
ANTI JOIN (
    SELECT DISTINCT gpu_id, ts AS hour FROM rollup_1h
    ANTI JOIN (
        SELECT gpu_id, date_trunc('hour', ts) AS ts FROM samples_all
        WHERE ts >= date_trunc('hour', epoch_ms(CAST($from_ms AS BIGINT)))
          AND ts < epoch_ms(CAST($to_ms AS BIGINT)) + INTERVAL 1 HOUR AND ts < epoch_ms(CAST($kept_ms AS BIGINT))
    ) AS there USING (gpu_id, ts)
    WHERE ts < epoch_ms(CAST($kept_ms AS BIGINT))
) AS complete ON complete.gpu_id = incoming.gpu_id AND complete.hour = date_trunc('hour', incoming.ts)
RETURNING gpu_id, epoch_ms(ts) - width_ms, epoch_ms(ts);
