-- How long the jobs that began in a window held their GPUs, counted by kind, size and length.
--
-- Lengths are told apart by eighths of an octave. Jobs that held their GPUs when the records began are left out:
-- nobody saw them begin.
--
-- @param from_ts minute: start of the window
-- @param to_ts minute: end of the window, exclusive
-- @column kind text: interactive, batch or inference
-- @column gpus bigint (GPUs): how many they held
-- @column length_s double (s): how long, or how long so far; the middle of the eighth
-- @column open boolean: they held them at the end of the window, so they are cut short
-- @column jobs bigint: how many such jobs
-- @null kind: not known
WITH runs AS (
    SELECT
        holder_id, count(DISTINCT gpu_id) AS gpus, min(from_ts) AS from_ts, max(coalesce(to_ts, $to_ts)) AS to_ts,
        bool_or(to_ts IS NULL OR to_ts >= $to_ts) AS open
    FROM allocations
    WHERE holder_id IS NOT NULL AND from_ts < $to_ts
    GROUP BY holder_id
    HAVING min(from_ts) >= $from_ts
        AND min(from_ts) > (SELECT min(from_ts) FROM allocations) + INTERVAL 1 MINUTE
), counted AS (
    SELECT
        h.kind, r.gpus, r.open,
        floor(8 * log2(greatest(epoch_ms(least(r.to_ts, $to_ts)) - epoch_ms(r.from_ts), 30000) / 60000)) AS eighth
    FROM runs AS r JOIN holders AS h USING (holder_id)
)
SELECT kind, gpus, 60 * pow(2, (eighth + 0.5) / 8) AS length_s, open, count(*) AS jobs
FROM counted
GROUP BY ALL
ORDER BY ALL
