-- The processes of a job when its GPUs were last looked at, with what each holds of their memory.
--
-- @param job text: the job
-- @param from_ts instant: looks older than this count for nothing
-- @column node text: the machine
-- @column pid integer: the host's process id
-- @column started_ms bigint (ms): when it started
-- @column uid bigint: whose, as a number
-- @column user_name text: whose
-- @column process_name text: its name
-- @column uuids text[]: the GPUs it is on
-- @column memory_used_bytes bigint (bytes): its memory on all of them
-- @column world_size text: WORLD_SIZE in its environment
-- @column container text: the container it is in
-- @column seen_ms bigint (ms): when it was last seen on them
-- @null not measured, not set, or not readable from outside
WITH newest AS (
    SELECT process_id, gpu_id, ts, memory_used_bytes
    FROM process_samples
    WHERE ts >= $from_ts
    QUALIFY row_number() OVER (PARTITION BY process_id, gpu_id ORDER BY ts DESC) = 1
), looked AS (
    SELECT gpu_id, max(ts) AS ts FROM process_samples WHERE ts >= $from_ts GROUP BY gpu_id
)
SELECT
    p.node, p.pid, epoch_ms(p.started_at) AS started_ms, p.uid, p.user_name, p.process_name,
    list(g.uuid ORDER BY g.uuid) AS uuids,
    CASE WHEN bool_and(n.memory_used_bytes IS NOT NULL) THEN sum(n.memory_used_bytes)::BIGINT END AS memory_used_bytes,
    p.environment['WORLD_SIZE'] AS world_size, p.container, max(epoch_ms(n.ts)) AS seen_ms
FROM newest AS n
JOIN looked AS l ON l.gpu_id = n.gpu_id AND l.ts = n.ts
JOIN processes AS p USING (process_id)
JOIN holders AS h USING (holder_id)
JOIN gpus AS g ON g.gpu_id = n.gpu_id
WHERE h.job = $job
GROUP BY ALL
ORDER BY p.node, p.pid;
