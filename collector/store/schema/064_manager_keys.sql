-- Where the GPUs of a job of a workload manager's were, by the manager's own keys: of the newest run that began, else
-- of the newest that waits. A job that only accounting tells of, since an exporter or an environment names it here,
-- has its keys from there, where one person's runs of that number are of one cluster.
--
-- managed_user: NULL where the job's id is one person's by itself
CREATE VIEW manager_keys AS
WITH shown AS (
    SELECT
        job, cluster, nullif(partition, '') AS partition, nullif(qos, '') AS qos, project AS account,
        row_number() OVER (
            PARTITION BY job ORDER BY started_at IS NULL, submitted_at DESC, restarts DESC, cluster) AS place
    FROM manager_jobs
), accounted AS (
    SELECT
        concat(manager, ':', number) AS job, user_name, max(cluster) AS cluster, count(DISTINCT cluster) AS clusters,
        arg_max(nullif(partition, ''), started_at) AS partition, arg_max(nullif(qos, ''), started_at) AS qos,
        arg_max(project, started_at) AS account
    FROM accounted_runs
    WHERE started_at IS NOT NULL AND user_name IS NOT NULL
    GROUP BY ALL
)
SELECT job AS managed_job, NULL::VARCHAR AS managed_user, cluster, partition, qos, account FROM shown WHERE place = 1
UNION ALL
SELECT job, user_name, cluster, partition, qos, account FROM accounted
WHERE clusters = 1 AND job NOT IN (SELECT job FROM shown);

-- A holder's key: NULL of whom no manager tells. Named beside job and user_name of holder_rows.
CREATE MACRO is_managed_as(managed_job, managed_user, job, user_name) AS
    managed_job = job AND (managed_user IS NULL OR managed_user = user_name);
