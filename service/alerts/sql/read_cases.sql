-- The cases that matter to the next look: those that are open, and closed ones that a word was said of lately.
-- Parameter: told_ms (UTC ms): words before that are long ago. Columns as `put_case` takes them.
SELECT
    number, key, kind, level, rung, epoch_ms(since_at) AS since_ms, title, says, next, command, evidence, job,
    user_name, project, node, gpus, epoch_ms(opened_at) AS opened_ms, told_level, epoch_ms(told_at) AS told_ms,
    epoch_ms(closed_at) AS closed_ms, because
FROM alert_cases
WHERE closed_at IS NULL OR told_at >= epoch_ms(CAST($told_ms AS BIGINT))
ORDER BY told_at NULLS FIRST, number;
