-- What was asked for with every submitted job of a window, what its owner allows, and what it last said of itself.
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
WITH asked AS (
    SELECT job, user_name, project, submitted_at, ended_at, body::JSON AS body
    FROM entries
    WHERE submitted_at < $to_ts AND (ended_at IS NULL OR ended_at > $from_ts)
)
SELECT
    job, user_name, project, nullif(body->>'$.submission.name', '') AS job_name, body->>'$.submission.kind' AS kind,
    (body->>'$.submission.min_gpus')::INTEGER AS min_gpus, (body->>'$.submission.max_gpus')::INTEGER AS max_gpus,
    (body->>'$.submission.share')::DOUBLE AS share, (body->>'$.submission.memory_bytes')::BIGINT AS memory_bytes,
    body->>'$.submission.gpu_models' AS gpu_models, (body->>'$.submission.priority')::INTEGER AS priority,
    (body->>'$.submission.limit_s')::DOUBLE AS limit_s, body->>'$.submission.mobility' AS mobility,
    (body->>'$.submission.preemptible')::BOOLEAN AS preemptible,
    (body->>'$.submission.may_share')::BOOLEAN AS may_share, body->>'$.submission.opted_out' AS opted_out,
    epoch_ms(submitted_at) AS submitted_ms, epoch_ms(ended_at) AS ended_ms,
    (body->>'$.report.memory_held_bytes')::BIGINT AS memory_held_bytes,
    (body->>'$.report.memory_needed_bytes')::BIGINT AS memory_needed_bytes, body->>'$.report.step_s' AS step_s,
    (body->>'$.report.resize_s')::DOUBLE AS resize_s
FROM asked
ORDER BY submitted_at, job;
