-- Rows of the journal, newest first. Parameters: since_ms (UTC ms; those unsettled come whenever they were
-- begun), job (NULL: all), number (NULL: all), only_open (true: those of which nothing is known yet), most.
-- Columns: intent, at_ms (UTC ms), steady_ms (NULL: not known), boot, plan (NULL: none), job, verb, actor,
-- reason, step (JSON), stood (JSON, '' when not known), outcome (NULL: not known yet), found, settled_ms, undo
-- (NULL: nothing undoes it), no_undo, undone_by (NULL: it stands).
SELECT
    intent, epoch_ms(begun_at) AS at_ms, steady_ms, boot, plan, job, verb, actor, reason, step, stood, outcome,
    found, epoch_ms(settled_at) AS settled_ms, undo, no_undo, undone_by
FROM intents
WHERE (outcome IS NULL OR begun_at >= epoch_ms(CAST($since_ms AS BIGINT)))
    AND ($job IS NULL OR job = $job)
    AND ($number IS NULL OR intent = $number)
    AND (NOT $only_open OR outcome IS NULL)
ORDER BY intent DESC
LIMIT $most;
