-- Who waits at a workload manager, and for what by its own word, as at its newest look; the next to start first.
--
-- @column job text: the job's id
-- @column shown_id text: what people call it, a waiting array's tasks with it
-- @column user_name text: whose
-- @column project text: the manager's account
-- @column job_name text: its name
-- @column cluster text: the manager's cluster
-- @column partition text: where it waits
-- @column qos text: its quality of service; empty: none
-- @column reservation text: into which it goes; empty: none
-- @column reason text: why it waits, in the manager's words
-- @column cause text: the same in ours: resources, limit, reservation, nodes, held, dependency, time, own, never, other or unsaid
-- @column limit_met text: the limit that it waits for, a JSON object: name, user, what, most, used; or unseen: why its number isn't known
-- @column gpus integer (GPUs): asked for, of all its nodes together, by each task
-- @column gpu_type text: of which type, by the manager's name of it; empty: any
-- @column shards integer: parts of GPUs asked for
-- @column nodes integer: asked for
-- @column tasks integer: how many it stands for, where it is an array
-- @column priority bigint: the higher the sooner
-- @column submitted_at timestamp: since when it waits
-- @column expected_at timestamp: when its manager expects it to begin
-- @column as_of timestamp: of the newest look
-- @never_null job, shown_id, cluster, submitted_at, tasks, as_of
-- @null limit_met: it waits for none that has a number; cause: seen by a version that did not tell; expected_at: not said, or already over; gpus: asked for in a way that the queue does not show; user_name, project, job_name: not said
WITH newest AS (SELECT manager, cluster, max(ts) AS as_of FROM manager_looks GROUP BY ALL)
SELECT
    job, shown_id, user_name, project, job_name, cluster, partition, qos, reservation, reason, cause, limit_met, gpus,
    gpu_type, shards, nodes, tasks, priority, submitted_at, CASE WHEN expected_at > as_of THEN expected_at END AS expected_at,
    as_of
FROM manager_jobs JOIN newest USING (manager, cluster)
WHERE state = 'pending'
ORDER BY priority DESC NULLS LAST, submitted_at, job
LIMIT 20000;
