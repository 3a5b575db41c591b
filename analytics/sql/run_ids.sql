-- What a job's processes say of the runs they are: names and values of their environment, a row each.
--
-- Processes that say the same are one: the newest of them. At most the fifty newest.
--
-- @param job text: the job's id
-- @column said integer: which of the different sayings this row is of, the newest first
-- @column name text: the variable
-- @column value text: what it holds
-- @column user_name text: whose job it is
-- @column processes bigint: how many processes say the same
-- @column last_seen timestamp: when the newest of them was last seen
-- @null user_name: not known whose; a job of which no environment could be read, or that says nothing, has no row
WITH own AS (
    SELECT p.process_id, p.last_seen, p.environment, h.user_name
    FROM processes AS p JOIN holders AS h USING (holder_id)
    WHERE h.job = $job
), listed AS (
    SELECT process_id, last_seen, user_name, unnest(map_keys(environment)) AS name, unnest(map_values(environment)) AS value
    FROM own
), kept AS (
    SELECT * FROM listed
    WHERE value <> '' AND name IN (
        'WANDB_RUN_ID', 'WANDB_PROJECT', 'WANDB_ENTITY', 'WANDB_BASE_URL', 'WANDB_SWEEP_ID',
        'MLFLOW_RUN_ID', 'MLFLOW_EXPERIMENT_ID', 'MLFLOW_EXPERIMENT_NAME', 'MLFLOW_TRACKING_URI',
        'SLURM_JOB_ID', 'SLURM_CLUSTER_NAME', 'LSB_JOBID', 'PBS_JOBID', 'FLUX_JOB_ID', 'RAY_JOB_ID',
        'KFP_RUN_ID', 'KFP_RUN_NAME', 'CLEARML_TASK_ID', 'DET_EXPERIMENT_ID', 'DET_TRIAL_ID', 'AZUREML_RUN_ID')
), whole AS (
    SELECT
        process_id, max(last_seen) AS last_seen,
        string_agg(name || '=' || value, chr(10) ORDER BY name) AS saying
    FROM kept GROUP BY process_id
), different AS (
    SELECT
        arg_max(process_id, last_seen) AS process_id, count(*) AS processes, max(last_seen) AS last_seen,
        row_number() OVER (ORDER BY max(last_seen) DESC, saying)::INTEGER AS said
    FROM whole GROUP BY saying
)
SELECT d.said, k.name, k.value, k.user_name, d.processes, d.last_seen
FROM different AS d JOIN kept AS k USING (process_id)
WHERE d.said <= 50
ORDER BY d.said, k.name;
