-- Allocations that overlap a span. Parameters: from_ms, to_ms (UTC ms, half-open).
-- Columns: uuid, node, job, user, project, name, kind, framework, command, share (0..1), source, from_ms,
-- to_ms (UTC ms; NULL: still held, as far as is known). NULL elsewhere: not known.
SELECT
    uuid, node, job, user_name AS "user", project, job_name AS name, kind, framework, command, share,
    allocations.source, epoch_ms(from_ts) AS from_ms,
    CASE WHEN NOT still_held(to_ts, l.ts, l.width_ms) THEN epoch_ms(to_ts) END AS to_ms
FROM allocations
LEFT JOIN latest AS l USING (gpu_id)
JOIN gpus USING (gpu_id)
JOIN holders USING (holder_id)
WHERE from_ts < epoch_ms(CAST($to_ms AS BIGINT))
  AND (to_ts IS NULL OR to_ts > epoch_ms(CAST($from_ms AS BIGINT)))
ORDER BY from_ts, uuid, job;
