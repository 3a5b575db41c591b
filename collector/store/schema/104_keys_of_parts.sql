-- A label may tell a part of a job as people call it (200+1, 4_2), where the manager has a number for it: it finds its partition,
-- QOS and account too.
CREATE OR REPLACE MACRO is_part_of_a_job(shown_id) AS coalesce(regexp_full_match(shown_id, '[0-9]+[_+][0-9]+'), false);

CREATE OR REPLACE VIEW manager_keys AS
WITH told AS (
    SELECT job, cluster, partition, qos, project, started_at, submitted_at, restarts FROM manager_jobs
    UNION ALL
    SELECT concat(manager, ':', shown_id), cluster, partition, qos, project, started_at, submitted_at, restarts
    FROM manager_jobs WHERE is_part_of_a_job(shown_id)
), shown AS (
    SELECT
        job, cluster, nullif(partition, '') AS partition, nullif(qos, '') AS qos, project AS account,
        row_number() OVER (
            PARTITION BY job ORDER BY started_at IS NULL, submitted_at DESC, restarts DESC, cluster) AS place,
        row_number() OVER (
            PARTITION BY job, cluster ORDER BY started_at IS NULL, submitted_at DESC, restarts DESC) AS place_there
    FROM told
), runs AS (
    SELECT concat(manager, ':', number) AS job, user_name, cluster, partition, qos, project, started_at FROM accounted_runs
    UNION ALL
    SELECT concat(manager, ':', shown_id), user_name, cluster, partition, qos, project, started_at
    FROM accounted_runs WHERE is_part_of_a_job(shown_id)
), past AS (
    SELECT
        job, user_name, cluster,
        arg_max(nullif(partition, ''), started_at) AS partition, arg_max(nullif(qos, ''), started_at) AS qos,
        arg_max(project, started_at) AS account
    FROM runs
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
