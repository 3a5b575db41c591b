-- The processes on one GPU when processes were last looked at.
--
-- @param uuid text: the GPU
-- @column node text: the machine
-- @column pid integer: the host's process id
-- @column user_name text: whose
-- @column process_name text: its name
-- @column command text: its command line
-- @column frameworks text[]: what it has loaded, the likeliest first
-- @column job text: the job it belongs to, or the only one that holds the GPU
-- @column memory_used_bytes bigint (bytes): its memory on this GPU
-- @column sm_ratio double (ratio): its share of the GPU's time
-- @column started_at timestamp: when it started
-- @column unreadable text[]: what was denied, and why
-- @column seen_at timestamp: when they were looked at
-- @column flags text: what was found odd about the GPU at that look, comma-separated
-- @null not measured, or not readable from outside; flags: nothing was odd
WITH wanted AS (
    SELECT gpu_id FROM gpus WHERE uuid = $uuid
), newest AS (
    SELECT max(ts) AS ts FROM process_samples WHERE gpu_id = (SELECT gpu_id FROM wanted)
), sole AS (
    SELECT min(h.job) AS job
    FROM allocations AS a JOIN holders AS h USING (holder_id)
    WHERE a.gpu_id = (SELECT gpu_id FROM wanted) AND a.to_ts IS NULL
    HAVING count(DISTINCT h.job) = 1
)
SELECT
    p.node, p.pid, p.user_name, p.process_name, p.command, p.frameworks,
    coalesce(h.job, (SELECT job FROM sole)) AS job, s.memory_used_bytes,
    s.sm_e4 / 10000.0 AS sm_ratio, p.started_at, p.unreadable, s.ts AS seen_at, d.flags
FROM process_samples AS s
JOIN processes AS p USING (process_id)
LEFT JOIN holders AS h USING (holder_id)
JOIN latest AS l ON l.gpu_id = s.gpu_id
LEFT JOIN samples AS d ON d.gpu_id = s.gpu_id AND d.ts = s.ts
WHERE s.gpu_id = (SELECT gpu_id FROM wanted) AND s.ts = (SELECT ts FROM newest)
    AND coalesce(l.process_count, 1) > 0
ORDER BY s.memory_used_bytes DESC NULLS LAST, p.pid;
