-- What is known of whose job it is. Parameter: job. Columns: user_name, project, job_name, kind, framework. NULL: not
-- known.
SELECT user_name, project, job_name, kind, framework
FROM holders
WHERE job = $job
LIMIT 1;
