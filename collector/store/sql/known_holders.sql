-- The holders of the given jobs (VARCHAR[] jobs): id, then the fields of collector.model.Holder in their
-- order. NULL: not known.
SELECT holder_id, job, user_name, project, job_name, kind, framework, command
FROM holders
WHERE job IN (SELECT unnest($jobs));
