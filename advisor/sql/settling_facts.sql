-- What the store knows of intents that are not settled. Parameter: numbers (a list of intents). Columns:
-- intent; given (whether a directive of that number was), handled (its launcher acknowledged it), failed (why
-- that did not work; NULL: it did, or is not known), told (its job's owner was told since it was begun).
SELECT
    i.intent,
    count(d.number) > 0 AS given,
    count(d.handled_at) > 0 AS handled,
    max(d.failed) AS failed,
    bool_or(EXISTS (SELECT 1 FROM tellings t WHERE t.job = i.job AND t.told_at >= i.begun_at)) AS told
FROM intents i
LEFT JOIN directives d ON d.number = i.intent AND d.job = i.job
WHERE i.intent IN (SELECT unnest(CAST($numbers AS BIGINT[])))
GROUP BY i.intent;
