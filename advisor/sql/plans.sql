-- Plans: those that wait first, the newest of the others after them. Parameters: plan (NULL: all), only_waiting,
-- most. Columns: plan, as_of_ms (UTC ms), state (waiting, applied, rejected, expired, done), body (JSON),
-- settled_ms (NULL: it waits), settled_by, because, snoozed_ms (NULL: not snoozed).
SELECT
    plan, epoch_ms(as_of) AS as_of_ms, state, body, epoch_ms(settled_at) AS settled_ms, settled_by, because,
    epoch_ms(snoozed_until) AS snoozed_ms
FROM plans
WHERE ($plan IS NULL OR plan = $plan) AND (NOT $only_waiting OR state = 'waiting')
ORDER BY state = 'waiting' DESC, plan DESC
LIMIT $most;
