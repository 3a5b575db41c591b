-- Pasts that were imported, recorded or made up, of which what was over is judged up to a time, and not yet from there on.
-- Nothing is found yet of jobs that had ended in that rest. What has no samples any more can be judged no more, and has no row.
--
-- @column from_ts timestamp: begin of the past
-- @column to_ts timestamp: its end
-- @column judged_to timestamp: up to when it is judged
-- @never_null from_ts, to_ts, judged_to
-- @null never
SELECT from_ts, to_ts, greatest(from_ts, coalesce(judged_to, from_ts)) AS judged_to
FROM imports
WHERE origin LIKE '%://%' AND coalesce(judged_to, from_ts) < to_ts
    AND to_ts > coalesce((SELECT complete_to FROM watermarks WHERE name = 'samples_kept'), epoch_ms(0))
ORDER BY from_ts, to_ts;
