-- Jobs that have ended since messages about that are switched on and that nobody was told of yet, the oldest first.
-- One that was given fewer GPU-hours than anybody wants to hear of is left out.
-- Parameters: from_ms (ends before that are long ago), to_ms (later ones may go on yet), least_gpu_hours; UTC ms.
-- Columns: job, from_ms (its first GPU), to_ms (its last one), gpus (UUIDs, commas between).
WITH ends AS (
    SELECT
        h.job, min(a.from_ts) AS from_ts, max(a.to_ts) AS to_ts,
        string_agg(DISTINCT g.uuid, ',' ORDER BY g.uuid) AS gpus,
        sum(epoch_ms(a.to_ts - a.from_ts) / 3600000.0 * a.share * g.share_of_device) AS gpu_hours
    FROM allocations AS a
    JOIN holders AS h USING (holder_id)
    JOIN gpus AS g USING (gpu_id)
    WHERE h.job IN (
        SELECT job FROM allocations JOIN holders USING (holder_id)
        WHERE to_ts > epoch_ms(CAST($from_ms AS BIGINT)))
    GROUP BY h.job
    HAVING bool_and(a.to_ts IS NOT NULL)
)
SELECT e.job, epoch_ms(e.from_ts) AS from_ms, epoch_ms(e.to_ts) AS to_ms, e.gpus
FROM ends AS e
JOIN alert_marks AS m ON m.name = 'job-ended' AND e.to_ts > m.since_at
WHERE e.gpu_hours >= $least_gpu_hours
    AND e.to_ts > epoch_ms(CAST($from_ms AS BIGINT)) AND e.to_ts <= epoch_ms(CAST($to_ms AS BIGINT))
    AND NOT EXISTS (
        FROM alert_cases AS c
        WHERE c.key = 'job-ended:' || e.job AND c.opened_at >= e.to_ts AND c.told_at >= e.to_ts)
ORDER BY e.to_ts, e.job;
