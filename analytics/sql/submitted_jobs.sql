-- What was asked for with every submitted job of a window, what its owner allows, and what it last said of itself.
--
-- Of each user the newest 20,000: nobody's submissions may make it too long to be answered. Commands and folders may
-- be long, so each body is read once, and only what is asked of it goes on.
--
-- @param from_ts minute: start of the window
-- @param to_ts minute: end of the window, exclusive
-- @column job text: the job's id
-- @column user_name text: whose
-- @column project text: for which project
-- @column job_name text: its name
-- @column kind text: interactive, batch or inference
-- @column min_gpus integer (GPUs): on how many it can run
-- @column max_gpus integer (GPUs): on how many it may
-- @column share double (fraction): how much of each
-- @column memory_bytes bigint (bytes): the memory of each that was asked for
-- @column gpu_models text: the models that it accepts, a JSON list; empty: any
-- @column priority integer: in its project's queue
-- @column limit_s double (s): it runs no longer
-- @column mobility text: elastic, checkpoints or rigid
-- @column preemptible boolean: its owner lets it be paused
-- @column may_share boolean: its owner lets it share a GPU
-- @column opted_out text: classes of action that its owner refuses, a JSON list
-- @column submitted_ms bigint (ms): when it was submitted
-- @column ended_ms bigint (ms): when it ended
-- @column memory_held_bytes bigint (bytes): what its own library held on its fullest GPU, caches included
-- @column memory_needed_bytes bigint (bytes): the most that its tensors took there
-- @column step_s text: seconds a step by how many GPUs, as it measured them, a JSON object
-- @column resize_s double (s): what its last resize cost it
-- @null ended_ms: it has not; else: it said nothing of it
WITH newest AS (
    SELECT job
    FROM entries
    WHERE submitted_at < $to_ts AND (ended_at IS NULL OR ended_at > $from_ts)
    QUALIFY row_number() OVER (PARTITION BY user_name ORDER BY number DESC) <= 20000
), asked AS (
    SELECT
        job, user_name, project, submitted_at, ended_at,
        json_extract_string(body, [
            '$.submission.name', '$.submission.kind', '$.submission.min_gpus', '$.submission.max_gpus',
            '$.submission.share', '$.submission.memory_bytes', '$.submission.gpu_models', '$.submission.priority',
            '$.submission.limit_s', '$.submission.mobility', '$.submission.preemptible', '$.submission.may_share',
            '$.submission.opted_out', '$.report.memory_held_bytes', '$.report.memory_needed_bytes', '$.report.step_s',
            '$.report.resize_s']) AS v
    FROM entries
    WHERE job IN (FROM newest)
)
SELECT
    job, user_name, project, nullif(v[1], '') AS job_name, v[2] AS kind,
    v[3]::INTEGER AS min_gpus, v[4]::INTEGER AS max_gpus, v[5]::DOUBLE AS share, v[6]::BIGINT AS memory_bytes,
    v[7] AS gpu_models, v[8]::INTEGER AS priority, v[9]::DOUBLE AS limit_s, v[10] AS mobility,
    v[11]::BOOLEAN AS preemptible, v[12]::BOOLEAN AS may_share, v[13] AS opted_out,
    epoch_ms(submitted_at) AS submitted_ms, epoch_ms(ended_at) AS ended_ms,
    v[14]::BIGINT AS memory_held_bytes, v[15]::BIGINT AS memory_needed_bytes, v[16] AS step_s,
    v[17]::DOUBLE AS resize_s
FROM asked
ORDER BY submitted_at, job;
