-- The rejected plans whose snooze has not ended. Parameter: now_ms (UTC ms). Columns: those of plans.
SELECT
    plan, epoch_ms(as_of) AS as_of_ms, state, body, epoch_ms(settled_at) AS settled_ms, settled_by, because,
    epoch_ms(snoozed_until) AS snoozed_ms
FROM plans
WHERE state = 'rejected' AND snoozed_until > epoch_ms(CAST($now_ms AS BIGINT))
ORDER BY plan;
