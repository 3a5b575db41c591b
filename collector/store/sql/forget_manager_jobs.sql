-- Takes out the runs that the Arrow table "incoming" (the columns of manager_jobs) tells anew.
DELETE FROM manager_jobs
USING incoming
WHERE manager_jobs.manager = incoming.manager
    AND manager_jobs.cluster = incoming.cluster
    AND manager_jobs.number = incoming.number
    AND manager_jobs.submitted_at = incoming.submitted_at
    AND manager_jobs.restarts = incoming.restarts;
