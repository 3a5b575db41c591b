-- Who holds which GPU at an instant.
--
-- @param as_of instant: the instant
-- @column gpu_id integer: the GPU's number in the store
-- @column holder_id integer: the holder's
-- @column job text: the job's id
-- @column user_name text: whose
-- @column project text: for which project
-- @column job_name text: its name
-- @column kind text: interactive, batch or inference
-- @column framework text: the likeliest framework
-- @column command text: its command line
-- @column share double (fraction): how much of the GPU it was given
-- @column from_ms bigint (ms): since when, breaks in which nobody looked left out
-- @column is_suspended boolean: its workload manager has it suspended, as far as it was asked last
-- @never_null is_suspended
-- @null not known
SELECT
    a.gpu_id, a.holder_id, h.job, h.user_name, h.project, h.job_name, h.kind, h.framework, h.command,
    a.share, epoch_ms(a.from_ts) AS from_ms,
    h.job IN (SELECT m.job FROM manager_jobs AS m WHERE m.state = 'paused' AND m.ended_at IS NULL) AS is_suspended
FROM holds_at($as_of) AS a
JOIN holders AS h USING (holder_id)
ORDER BY a.gpu_id, a.holder_id;
