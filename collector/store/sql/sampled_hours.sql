-- The runs of whole hours in which some GPUs have samples.
-- Parameters: from_ms, to_ms (UTC ms, half-open, from_ms on an hour), gpu_ids (INTEGER[]).
-- Rows: start and end of a run (UTC ms), the GPUs that have it.
SELECT from_ms, to_ms, list(gpu_id ORDER BY gpu_id)
FROM (
    SELECT gpu_id, min(hour) * 3600000 AS from_ms, max(hour) * 3600000 + 3600000 AS to_ms
    FROM (
        SELECT gpu_id, hour, hour - row_number() OVER (PARTITION BY gpu_id ORDER BY hour) AS run
        FROM (
            SELECT DISTINCT gpu_id, epoch_ms(ts) // 3600000 AS hour
            FROM samples_all
            WHERE ts >= epoch_ms(CAST($from_ms AS BIGINT)) AND ts < epoch_ms(CAST($to_ms AS BIGINT))
              AND gpu_id IN (SELECT unnest($gpu_ids))))
    GROUP BY gpu_id, run)
GROUP BY from_ms, to_ms
ORDER BY from_ms, to_ms;
