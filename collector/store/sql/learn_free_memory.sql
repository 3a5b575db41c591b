-- Lowers each GPU's memory of when it is free to the least that was used in a range while nobody held it. Only ever
-- lowered, so that doing a range again changes nothing. What ran, and the five minutes after a hold, are left out:
-- a process outlives its pod by a grace (30 s in Kubernetes), and a label may be missing from some scrapes. So is the
-- time in which nobody could be asked who holds it.
-- Parameters: from_ms, to_ms (UTC ms, half-open).
UPDATE gpus SET memory_free_bytes = seen.bytes
FROM (
    SELECT s.gpu_id, min(s.memory_used_bytes) AS bytes
    FROM samples_all AS s
    ANTI JOIN (
        SELECT gpu_id, from_ts, to_ts FROM allocations
        WHERE from_ts < epoch_ms(CAST($to_ms AS BIGINT)) AND (to_ts IS NULL OR to_ts > epoch_ms(CAST($from_ms AS BIGINT)) - INTERVAL 5 MINUTE)
    ) AS a ON a.gpu_id = s.gpu_id AND a.from_ts < s.ts
        AND (a.to_ts IS NULL OR a.to_ts > s.ts - to_milliseconds(s.width_ms) - INTERVAL 5 MINUTE)
    ANTI JOIN (SELECT gpu_id, from_ts, to_ts FROM withheld WHERE state = 'unasked') AS w ON w.gpu_id = s.gpu_id
        AND w.from_ts < s.ts AND (w.to_ts IS NULL OR w.to_ts > s.ts - to_milliseconds(s.width_ms))
    WHERE s.ts > epoch_ms(CAST($from_ms AS BIGINT)) AND s.ts <= epoch_ms(CAST($to_ms AS BIGINT))
      AND s.memory_used_bytes IS NOT NULL
      AND coalesce(greatest(s.utilization_e4, s.gpu_utilization_e4, s.graphics_active_e4, s.sm_active_e4, s.encoder_e4,
        s.decoder_e4, s.jpeg_e4, s.ofa_e4), 0) <= 100
    GROUP BY s.gpu_id
) AS seen
WHERE seen.gpu_id = gpus.gpu_id AND (memory_free_bytes IS NULL OR memory_free_bytes > seen.bytes);
