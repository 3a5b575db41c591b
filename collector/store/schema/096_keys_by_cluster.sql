-- Keys of jobs whose ids name their cluster (slurm:42@a), as those of a Prometheus that has several do: they are those
-- of that cluster's run, whoever has the number elsewhere. Clusters are compared without regard to case.

-- A job's id with its cluster: one of digits alone would be taken for the second of a number that was used again.
CREATE MACRO job_in(job, cluster) AS
    concat(job, '@', CASE WHEN regexp_full_match(cluster, '[0-9]+') THEN 'cluster-' ELSE '' END, lower(cluster));

-- An id as it is told, but for its cluster in small letters.
CREATE MACRO told_in_small(job) AS
    CASE WHEN strpos(job, '@') = 0 THEN job
        ELSE concat(split_part(job, '@', 1), lower(substr(job, strpos(job, '@')))) END;

CREATE OR REPLACE VIEW manager_keys AS
WITH shown AS (
    SELECT
        job, cluster, nullif(partition, '') AS partition, nullif(qos, '') AS qos, project AS account,
        row_number() OVER (
            PARTITION BY job ORDER BY started_at IS NULL, submitted_at DESC, restarts DESC, cluster) AS place,
        row_number() OVER (
            PARTITION BY job, cluster ORDER BY started_at IS NULL, submitted_at DESC, restarts DESC) AS place_there
    FROM manager_jobs
), past AS (
    SELECT
        concat(manager, ':', number) AS job, user_name, cluster,
        arg_max(nullif(partition, ''), started_at) AS partition, arg_max(nullif(qos, ''), started_at) AS qos,
        arg_max(project, started_at) AS account
    FROM accounted_runs
    WHERE started_at IS NOT NULL AND user_name IS NOT NULL
    GROUP BY ALL
), of_one_cluster AS (
    SELECT job, user_name FROM past GROUP BY ALL HAVING count(*) = 1
)
SELECT job AS managed_job, NULL::VARCHAR AS managed_user, cluster, partition, qos, account FROM shown WHERE place = 1
UNION ALL
SELECT job, user_name, cluster, partition, qos, account FROM past SEMI JOIN of_one_cluster USING (job, user_name)
WHERE job NOT IN (SELECT job FROM shown)
UNION ALL
SELECT job_in(job, cluster), NULL, cluster, partition, qos, account FROM shown WHERE place_there = 1
UNION ALL
SELECT job_in(job, cluster), user_name, cluster, partition, qos, account FROM past
WHERE job_in(job, cluster) NOT IN (SELECT job_in(job, cluster) FROM shown);

-- A holder's key: NULL of whom no manager tells. Named beside job and user_name of holder_rows.
CREATE OR REPLACE MACRO is_managed_as(managed_job, managed_user, job, user_name) AS
    managed_job = told_in_small(job) AND (managed_user IS NULL OR managed_user = user_name);
