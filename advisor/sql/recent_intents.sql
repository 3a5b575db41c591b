-- The intents that may count for the brake: by either clock at most so old, or not settled. Parameters:
-- after_ms (UTC ms), after_steady_ms, boot (this boot's name; NULL: not known). Columns: those of intents.
-- Of what people ordered by themselves the newest of each kind for each job is enough: it is read at every look,
-- and nobody's orders may make that long.
SELECT
    intent, epoch_ms(begun_at) AS at_ms, steady_ms, boot, plan, job, verb, actor, reason, step, stood, outcome,
    found, epoch_ms(settled_at) AS settled_ms, undo, no_undo, undone_by
FROM intents
WHERE outcome IS NULL OR begun_at >= epoch_ms(CAST($after_ms AS BIGINT))
    OR (boot = $boot AND steady_ms >= $after_steady_ms)
QUALIFY actor = 'fallow' OR plan IS NOT NULL OR outcome IS NULL
    OR row_number() OVER (PARTITION BY job, verb, plan IS NULL, actor = 'fallow' ORDER BY intent DESC) = 1
ORDER BY intent;
