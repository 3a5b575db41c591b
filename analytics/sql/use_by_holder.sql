-- What each holder of a shared GPU did lately, where an exporter tells that of whole pods.
--
-- @param uuid text: the GPU
-- @column ts timestamp: end of the time that it was told of, the newest there is
-- @column user_name text: whose it is
-- @column project text: for which project
-- @column job text: the job's id
-- @column job_name text: the job's name
-- @column gpu_utilization_ratio double (ratio): share of time in which its kernels ran
-- @column memory_used_bytes bigint (bytes): used by its processes
-- @null user_name, project, job_name: not known; else: not told
SELECT
    s.ts, h.user_name, h.project, h.job, h.job_name, s.gpu_utilization_e4 / 10000.0 AS gpu_utilization_ratio,
    s.memory_used_bytes
FROM holder_samples AS s
JOIN holders AS h USING (holder_id)
JOIN gpus AS g USING (gpu_id)
WHERE g.uuid = $uuid
QUALIFY s.ts = max(s.ts) OVER ()
ORDER BY h.job;
