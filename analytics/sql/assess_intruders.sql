-- Visits of processes to a GPU given to others, at any time from an instant on, as known at a later one. Visits of the last
-- 24 hours are there in any case: a person who starts anew again and again has been there since the first of them.
--
-- @param as_of instant: the later instant
-- @param bins_from instant: start of the time that is judged
-- @column gpu_id integer: the GPU's number in the store
-- @column node text: the machine
-- @column pid integer: the host's process id
-- @column user_name text: whose process it is
-- @column uid bigint: that person's number on the machine
-- @column process_name text: its name
-- @column command text: its command line
-- @column from_ms bigint (ms): since when it is there
-- @column to_ms bigint (ms): until when it was
-- @column memory_used_bytes bigint (bytes): its memory on the GPU when last looked at
-- @column sm_ratio double (ratio): its share of the GPU's time when last looked at
-- @null to_ms: it is still there; else: not measured, or not readable from outside
WITH here AS (
    SELECT gpu_id, process_id, from_ts, CASE WHEN to_ts <= $as_of THEN to_ts END AS to_ts
    FROM intrusions
    WHERE from_ts <= $as_of AND (to_ts IS NULL OR to_ts > least($bins_from, $as_of - INTERVAL 24 HOUR))
), newest AS (
    SELECT s.gpu_id, s.process_id, arg_max(s.memory_used_bytes, s.ts) AS memory_used_bytes, arg_max(s.sm_e4, s.ts) AS sm_e4
    FROM process_samples AS s SEMI JOIN here AS h ON h.gpu_id = s.gpu_id AND h.process_id = s.process_id
    WHERE s.ts > $bins_from AND s.ts <= $as_of
    GROUP BY s.gpu_id, s.process_id
)
SELECT
    h.gpu_id, p.node, p.pid, p.user_name, p.uid, p.process_name, p.command, epoch_ms(h.from_ts) AS from_ms,
    epoch_ms(h.to_ts) AS to_ms, n.memory_used_bytes, n.sm_e4 / 10000.0 AS sm_ratio
FROM here AS h
JOIN processes AS p USING (process_id)
LEFT JOIN newest AS n ON n.gpu_id = h.gpu_id AND n.process_id = h.process_id
ORDER BY h.gpu_id, h.from_ts, p.pid;
