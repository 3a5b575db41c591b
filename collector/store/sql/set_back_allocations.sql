-- Lets allocations begin and end at at_ms (UTC ms) at the latest, the time that a clock was set back to; those that
-- last go on.
UPDATE allocations
SET from_ts = least(from_ts, epoch_ms(CAST($at_ms AS BIGINT))),
    to_ts = CASE WHEN to_ts IS NOT NULL THEN least(to_ts, epoch_ms(CAST($at_ms AS BIGINT))) END
WHERE from_ts > epoch_ms(CAST($at_ms AS BIGINT)) OR to_ts > epoch_ms(CAST($at_ms AS BIGINT));
