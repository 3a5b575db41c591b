-- Notes on a telling that it reached somebody by this way too; who was reached by none before was told now, not when
-- it was tried. The first telling of the job since since_ms is meant. Parameters: job, since_ms, at_ms (UTC ms), way.
-- Column: told_at; no row: there is no such telling.
UPDATE tellings SET
    told_at = CASE WHEN reached IS NULL THEN epoch_ms(CAST($at_ms AS BIGINT)) ELSE told_at END,
    reached = CASE WHEN reached IS NULL THEN $way ELSE reached || ', ' || $way END
WHERE job = $job AND told_at = (
    SELECT min(told_at) FROM tellings WHERE job = $job AND told_at >= epoch_ms(CAST($since_ms AS BIGINT)))
RETURNING told_at;
