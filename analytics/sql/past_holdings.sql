-- Which job had which GPU, and when, in a window.
--
-- @param from_ts minute: start of the window
-- @param to_ts minute: end of the window, exclusive
-- @column job text: the job's id
-- @column uuid text: the GPU, or the MIG instance
-- @column share double (fraction): how much of it
-- @column from_ms bigint (ms): since when; it may have been before the window
-- @column to_ms bigint (ms): until when, within the window
-- @null never
SELECT
    h.job, g.uuid, a.share, epoch_ms(a.from_ts) AS from_ms, epoch_ms(least(coalesce(a.to_ts, $to_ts), $to_ts)) AS to_ms
FROM allocations AS a
JOIN gpus AS g USING (gpu_id)
JOIN holders AS h USING (holder_id)
WHERE a.from_ts < $to_ts AND (a.to_ts IS NULL OR a.to_ts > $from_ts)
ORDER BY a.from_ts, h.job, g.uuid;
