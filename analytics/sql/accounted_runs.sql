-- The runs of one job as its workload manager's accounting has them, the newest first.
--
-- @param job text: the manager's name and its number, or what people call the job (slurm:812, slurm:4_2)
-- @column job text: the manager's name and its number
-- @column shown_id text: what people call it
-- @column user_name text: whose
-- @column project text: the manager's account
-- @column job_name text: its name
-- @column cluster text: the manager's cluster
-- @column partition text: where it was; empty: not said
-- @column qos text: its quality of service; empty: none
-- @column state_name text: how it ended, in the manager's words
-- @column exit_code text: code and signal; empty: not said
-- @column gpus integer (GPUs): given, of all its nodes together
-- @column gpu_types text: of these; empty: not said
-- @column asked_gpus integer (GPUs): asked for
-- @column node_names text[]: where it was
-- @column submitted_at timestamp: when it was submitted, or put back into the queue
-- @column started_at timestamp: when it began
-- @column ended_at timestamp: when it was over
-- @column measured_gpus integer (GPUs): with a mean over the whole run
-- @column unused_gpus integer (GPUs): of these, with a mean of 0
-- @column utilization_ratio double: the mean of these means, an upper bound of the use
-- @column measured text: each of them, a JSON list of node, gpu, utilization_ratio, memory_used_bytes, memory_total_bytes
-- @never_null job, shown_id, cluster, state_name, submitted_at, ended_at, node_names, gpus
-- @null started_at: it never began; asked_gpus: not said; utilization_ratio, measured: nothing is known of its use
SELECT
    concat(manager, ':', number) AS job, shown_id, user_name, project, job_name, cluster, partition, qos, state_name,
    exit_code, gpus, gpu_types, asked_gpus, node_names, submitted_at, started_at, ended_at, measured_gpus, unused_gpus,
    utilization_ratio, measured
FROM accounted_runs
WHERE concat(manager, ':', number) = $job OR concat(manager, ':', shown_id) = $job
ORDER BY submitted_at DESC, started_at DESC
LIMIT 1000;
