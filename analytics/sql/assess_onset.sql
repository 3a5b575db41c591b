-- How memory rose on some GPUs after they were given to their present holders: was it taken all at once?
--
-- First use is the first sample above the idle floor, max(1 GiB, 1%). Memory is flat when, once full, it never moved
-- by more than flat_ratio of the GPU. GPUs that several hold, or that were given before samples_from, are left out.
--
-- @param as_of instant: the instant
-- @param samples_from instant: raw samples are read from here on
-- @param gpu_ids counts: the GPUs
-- @param full_ratio ratio: from here on memory counts as full
-- @param flat_ratio ratio: how much it may move then
-- @column gpu_id integer: the GPU
-- @column first_used_ms bigint (ms): first use
-- @column full_after_ms bigint (ms): how long after it memory was full
-- @column flat boolean: whether it stayed so
-- @null full_after_ms: it never was
WITH given AS (
    SELECT gpu_id, min(from_ts) AS from_ts
    FROM holds_at($as_of)
    WHERE gpu_id IN (SELECT unnest($gpu_ids))
    GROUP BY gpu_id
    HAVING count(DISTINCT holder_id) = 1 AND min(from_ts) >= $samples_from
), samples_of AS (
    SELECT s.gpu_id, s.ts, s.memory_used_bytes AS used, g.memory_total_bytes AS total
    FROM samples_all AS s
    JOIN given AS v ON v.gpu_id = s.gpu_id AND s.ts > v.from_ts
    JOIN gpus AS g ON g.gpu_id = s.gpu_id
    WHERE s.ts > $samples_from AND s.ts <= $as_of AND s.memory_used_bytes IS NOT NULL
), firsts AS (
    SELECT gpu_id, min(ts) FILTER (WHERE used > idle_memory_floor_bytes(total)) AS first_ts,
        min(ts) FILTER (WHERE used >= $full_ratio * total) AS full_ts
    FROM samples_of GROUP BY gpu_id
)
SELECT
    f.gpu_id, epoch_ms(f.first_ts) AS first_used_ms, epoch_ms(f.full_ts) - epoch_ms(f.first_ts) AS full_after_ms,
    coalesce(max(s.used) FILTER (WHERE s.ts >= f.full_ts) - min(s.used) FILTER (WHERE s.ts >= f.full_ts)
        <= $flat_ratio * max(s.total), false) AS flat
FROM firsts AS f
JOIN samples_of AS s USING (gpu_id)
WHERE f.first_ts IS NOT NULL
GROUP BY f.gpu_id, f.first_ts, f.full_ts
ORDER BY f.gpu_id;
