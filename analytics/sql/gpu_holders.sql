-- Who was given one GPU, in order.
--
-- @param uuid text: the GPU
-- @param from_ts minute: start of the window
-- @param to_ts minute: end of the window, exclusive
-- @column from_ts timestamp: given since, which may be before the window
-- @column from_is_bound boolean: its records begin then, so that it may have been given before
-- @column to_ts timestamp: given until
-- @column user_name text: to whom
-- @column project text: for which project
-- @column job text: the job's id
-- @column job_name text: the job's name
-- @column share double (fraction): how much of the GPU
-- @column source text: who says so (lease, slurm, kubernetes, environment, process)
-- @null to_ts: still held, as far as is known; user_name, project, job_name: not known
SELECT
    a.from_ts, a.from_ts <= g.installed_from + INTERVAL 30 SECOND AS from_is_bound,
    CASE WHEN NOT still_held(a.to_ts, l.ts, l.width_ms) THEN a.to_ts END AS to_ts, h.user_name, h.project, h.job, h.job_name, a.share, a.source
FROM allocations AS a
JOIN holders AS h USING (holder_id)
JOIN gpus AS g USING (gpu_id)
LEFT JOIN latest AS l USING (gpu_id)
WHERE $uuid IN (g.uuid, g.cut_of) AND a.from_ts < $to_ts AND (a.to_ts IS NULL OR a.to_ts > $from_ts)
ORDER BY a.from_ts, h.job;
