-- What sites' own commands were asked and has no outcome yet, and the pauses that hold; oldest first.
-- Columns: intent, begun_ms, ended_ms (UTC ms), ended_as, body (JSON), outcome, over_as. NULL: not yet.
SELECT intent, epoch_ms(begun_at) AS begun_ms, epoch_ms(ended_at) AS ended_ms, ended_as, body, outcome, over_as
FROM hook_acts
WHERE over_as IS NULL AND (outcome IS NULL OR (outcome = 'done' AND verb = 'pause'))
ORDER BY begun_at, intent;
