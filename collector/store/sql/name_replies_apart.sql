-- Has what owners allowed, kept and were told of jobs of the registered Arrow table "renamed" (job, to_job) go on under the
-- id to_job. Before name_jobs_apart, for the jobs that it renames. No parameters.
UPDATE consents SET job = to_job FROM renamed
WHERE consents.job = renamed.job AND to_job NOT IN (SELECT job FROM holders);
UPDATE keeps SET job = to_job FROM renamed
WHERE keeps.job = renamed.job AND to_job NOT IN (SELECT job FROM holders);
UPDATE tellings SET job = to_job FROM renamed
WHERE tellings.job = renamed.job AND to_job NOT IN (SELECT job FROM holders);
