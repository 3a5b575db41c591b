-- Lets go of plans that ran out too long ago; what was done, approved or rejected is kept with the journal, and
-- the newest stays, because numbers go on from it. Parameter: before_ms (UTC ms).
DELETE FROM plans
WHERE settled_at < epoch_ms(CAST($before_ms AS BIGINT)) AND state = 'expired'
    AND plan < (SELECT max(plan) FROM plans);
