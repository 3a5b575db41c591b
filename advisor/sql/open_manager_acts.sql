-- What was asked of workload managers and has no outcome yet, and the pauses that hold; oldest first.
-- Columns: intent, begun_ms, seen_ms (UTC ms), body, after_body (JSON), outcome, over_as. NULL: not yet.
SELECT intent, epoch_ms(begun_at) AS begun_ms, epoch_ms(seen_at) AS seen_ms, body, after_body, outcome, over_as
FROM manager_acts
WHERE over_as IS NULL AND (outcome IS NULL OR (outcome = 'done' AND verb = 'pause'))
ORDER BY begun_at, intent;
