-- Gives jobs of the registered Arrow table "renamed" (job, to_job, ending) the id to_job, and their names the ending; one
-- whose new id is there already stays. No parameters.
UPDATE holders
SET job = renamed.to_job, job_name = CASE WHEN ends_with(job_name, ending) THEN job_name ELSE job_name || ending END
FROM renamed
WHERE holders.job = renamed.job AND renamed.to_job NOT IN (SELECT job FROM holders);
