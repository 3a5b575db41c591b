-- The runs of one job at its workload manager: that which has GPUs first, then the newest. Of a job of Ray's, what it
-- waits for beside the GPUs that it has are runs as well.
--
-- @param job text: the job's id, or slurm: and what people call it (slurm:4_2)
-- @column job text: the job's id
-- @column shown_id text: what people call it
-- @column user_name text: whose
-- @column project text: the manager's account
-- @column job_name text: its name
-- @column kind text: batch or interactive
-- @column cluster text: the manager's cluster
-- @column partition text: where it is
-- @column qos text: its quality of service; empty: none
-- @column reservation text: in which it is; empty: none
-- @column state text: pending, running, paused, ending or ended
-- @column state_name text: the manager's word; empty: it was over before anybody looked
-- @column reason text: why it waits, in the manager's words
-- @column limit_met text: the limit that it waits for, a JSON object: name, user, what, most, used; or unseen: why its number isn't known
-- @column restarts integer: how often it was put back into the queue before
-- @column gpus integer (GPUs): asked for, of all its nodes together
-- @column nodes integer: asked for
-- @column given text: which GPUs of which nodes it has, a JSON list
-- @column word text: what its owner allows in its comment, as written; empty: nothing
-- @column limit_s bigint (s): the longest that it may run
-- @column submitted_at timestamp: when it was submitted, or put back into the queue
-- @column started_at timestamp: when it began
-- @column ended_at timestamp: when it was over
-- @never_null job, shown_id, cluster, state, nodes, submitted_at
-- @null limit_met: it waits for none that has a number; gpus: not said; given: it has some, nobody says which; limit_s: no limit; started_at, ended_at: it has not
SELECT
    job, shown_id, user_name, project, job_name, kind, cluster, partition, qos, reservation, state, state_name, reason, limit_met,
    restarts, gpus, nodes, given, word, limit_s, submitted_at, started_at, ended_at
FROM manager_jobs
WHERE job = $job OR concat(manager, ':', shown_id) = $job
ORDER BY ended_at IS NULL AND given IS DISTINCT FROM '[]' DESC, submitted_at DESC, restarts DESC
LIMIT 1000;
