-- The checkpoints of foreign jobs that are open, or were begun or ended since from_ms (UTC ms), oldest first.
-- Columns: job, intent, begun_ms, ended_ms (UTC ms), ended_as, body. NULL: it is open.
SELECT job, intent, epoch_ms(begun_at) AS begun_ms, epoch_ms(ended_at) AS ended_ms, ended_as, body
FROM checkpoints
WHERE ended_at IS NULL OR begun_at >= epoch_ms(CAST($from_ms AS BIGINT))
    OR ended_at >= epoch_ms(CAST($from_ms AS BIGINT))
ORDER BY begun_at, intent;
