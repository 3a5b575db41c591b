-- Ends a plan's waiting; one that is settled stays as it is. Parameters: plan, state, at_ms (UTC ms), by_user,
-- because, snoozed_ms (UTC ms; NULL: not snoozed). Column: plan, no row when it waits no more.
UPDATE plans SET
    state = $state, settled_at = epoch_ms(CAST($at_ms AS BIGINT)), settled_by = $by_user, because = $because,
    snoozed_until = epoch_ms(CAST($snoozed_ms AS BIGINT))
WHERE plan = $plan AND state = 'waiting'
RETURNING plan;
