-- Keeps a plan. Parameters: as_of_ms (UTC ms), state, body (JSON), settled_ms (UTC ms; NULL: it waits).
-- Column: plan, its number.
INSERT INTO plans (plan, as_of, state, body, settled_at)
SELECT
    1 + coalesce(max(plan), 0), epoch_ms(CAST($as_of_ms AS BIGINT)), $state, $body,
    epoch_ms(CAST($settled_ms AS BIGINT))
FROM plans
RETURNING plan;
