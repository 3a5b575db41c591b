-- What part of the work and of the memory of GPUs that several use, intruders too, is each holder's own, bin by bin, as the driver tells it of processes.
--
-- The driver has a sample of each process that did something, so one without a sample beside others with one did
-- nothing; so it is with what an exporter tells of whole pods. A process is its job's; where that is not known, its person's, if one of the holders is. A bin in which
-- nothing was told, or in which a process is of unknown owner, has no row. A process keeps the most memory that it had in a bin. An intruder's work is nobody's here, but only
-- where it is known to be of another person than the holders.
--
-- @param bins_from instant: start of the first bin
-- @param bins_to instant: end of the last bin
-- @param as_of instant: samples up to here
-- @param gpu_ids counts: the GPUs
-- @column gpu_id integer: the GPU
-- @column holder_id integer: the holder
-- @column bin bigint: which bin, the first is 0
-- @column part double (fraction): of all the work on the GPU
-- @column memory_bytes bigint (bytes): that its processes took
-- @null part: nobody worked; memory_bytes: that of a process is not told
WITH claims AS (
    SELECT a.gpu_id, a.holder_id, h.user_name
    FROM holds_at($as_of) AS a JOIN holders AS h USING (holder_id)
    WHERE a.gpu_id IN (SELECT unnest($gpu_ids))
), persons AS (
    SELECT gpu_id, user_name, CASE WHEN count(*) = 1 THEN min(holder_id) END AS holder_id
    FROM claims WHERE user_name IS NOT NULL GROUP BY ALL
), touching AS (
    SELECT gpu_id, process_id, bin, max(memory_used_bytes) AS memory_bytes,
        sum(coalesce(sm_e4, 0) * (least(end_ms, (bin + 1) * 30000) - greatest(end_ms - width_ms, bin * 30000))) AS work
    FROM (
        SELECT *, unnest(range((end_ms - width_ms) // 30000, (end_ms - 1) // 30000 + 1)) AS bin
        FROM (
            SELECT gpu_id, process_id, sm_e4, memory_used_bytes, width_ms, epoch_ms(ts) - epoch_ms($bins_from) AS end_ms
            FROM process_samples
            WHERE ts > $bins_from AND ts <= $as_of AND gpu_id IN (SELECT unnest($gpu_ids))))
    WHERE bin >= 0 AND bin < (epoch_ms($bins_to) - epoch_ms($bins_from)) // 30000
    GROUP BY gpu_id, process_id, bin
), owned AS (
    SELECT t.gpu_id, t.bin, i.process_id IS NOT NULL AND u.user_name IS NULL
            AND (p.user_name IS NOT NULL OR p.uid IS NOT NULL) AS intrudes,
        CASE WHEN i.process_id IS NULL
            THEN coalesce(j.holder_id, CASE WHEN p.holder_id IS NULL THEN u.holder_id END) END AS holder_id,
        t.work, t.memory_bytes
    FROM touching AS t
    JOIN processes AS p USING (process_id)
    LEFT JOIN claims AS j ON j.gpu_id = t.gpu_id AND j.holder_id = p.holder_id
    LEFT JOIN persons AS u ON u.gpu_id = t.gpu_id AND u.user_name = p.user_name
    LEFT JOIN (SELECT DISTINCT gpu_id, process_id FROM intrusions) AS i
        ON i.gpu_id = t.gpu_id AND i.process_id = t.process_id
), pods AS (  -- what an exporter tells of whole pods, where nothing is told of processes
    SELECT gpu_id, holder_id, bin, max(memory_used_bytes) AS memory_bytes,
        sum(used_e4 * (least(end_ms, (bin + 1) * 30000) - greatest(end_ms - width_ms, bin * 30000))) AS work
    FROM (
        SELECT *, unnest(range((end_ms - width_ms) // 30000, (end_ms - 1) // 30000 + 1)) AS bin
        FROM (
            SELECT gpu_id, holder_id, gpu_utilization_e4 AS used_e4, memory_used_bytes, width_ms,
                epoch_ms(ts) - epoch_ms($bins_from) AS end_ms
            FROM holder_samples
            WHERE ts > $bins_from AND ts <= $as_of AND gpu_id IN (SELECT unnest($gpu_ids))))
    WHERE bin >= 0 AND bin < (epoch_ms($bins_to) - epoch_ms($bins_from)) // 30000
    GROUP BY gpu_id, holder_id, bin
), told AS (
    SELECT gpu_id, bin, intrudes, holder_id, work, memory_bytes FROM owned
    UNION ALL
    SELECT p.gpu_id, p.bin, false AS intrudes, c.holder_id, p.work, p.memory_bytes
    FROM (FROM pods ANTI JOIN touching USING (gpu_id, bin)) AS p
    LEFT JOIN claims AS c ON c.gpu_id = p.gpu_id AND c.holder_id = p.holder_id
), totals AS (
    SELECT gpu_id, bin, sum(work) AS all_work, bool_and(memory_bytes IS NOT NULL) AS is_memory_told
    FROM told GROUP BY ALL
    HAVING bool_and(holder_id IS NOT NULL OR intrudes)
)
SELECT c.gpu_id, c.holder_id, t.bin, coalesce(sum(o.work), 0) / nullif(t.all_work, 0) AS part,
    CASE WHEN t.is_memory_told THEN coalesce(sum(o.memory_bytes), 0) END::BIGINT AS memory_bytes
FROM totals AS t
JOIN claims AS c USING (gpu_id)
LEFT JOIN told AS o ON o.gpu_id = t.gpu_id AND o.bin = t.bin AND o.holder_id = c.holder_id
GROUP BY c.gpu_id, c.holder_id, t.bin, t.all_work, t.is_memory_told
ORDER BY c.gpu_id, c.holder_id, t.bin;
