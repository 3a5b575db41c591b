-- Takes out the stored runs without measured means of which the Arrow table "incoming" (the columns of
-- accounted_runs) brings some: a comment is written after the job's end. The number of them.
DELETE FROM accounted_runs
USING incoming
WHERE accounted_runs.measured_gpus = 0 AND incoming.measured_gpus > 0
    AND accounted_runs.number = incoming.number AND accounted_runs.submitted_at = incoming.submitted_at
    AND accounted_runs.started_at IS NOT DISTINCT FROM incoming.started_at
    AND accounted_runs.cluster = incoming.cluster AND accounted_runs.manager = incoming.manager;
