-- How long the jobs that began in a window held their GPUs, counted by kind, size and length.
--
-- Lengths are told apart by eighths of an octave. Jobs that held their GPUs when the records began are left out:
-- nobody saw them begin. A pause is no part of a length.
--
-- @param from_ts minute: start of the window
-- @param to_ts minute: end of the window, exclusive
-- @column kind text: interactive, batch or inference
-- @column gpus bigint (GPUs): the most that they held at once
-- @column length_s double (s): how long, or how long so far; the middle of the eighth
-- @column open boolean: they held them at the end of the window, so they are cut short
-- @column jobs bigint: how many such jobs
-- @null kind: not known
WITH seen AS (
    SELECT
        holder_id, from_ts, least(coalesce(to_ts, $to_ts), $to_ts) AS to_ts,
        to_ts IS NULL OR to_ts >= $to_ts AS open
    FROM allocations
    WHERE holder_id IS NOT NULL AND from_ts < $to_ts
), begun AS (
    SELECT holder_id, bool_or(open) AS open
    FROM seen
    GROUP BY holder_id
    HAVING min(from_ts) >= $from_ts
        AND min(from_ts) > (SELECT min(from_ts) FROM allocations) + INTERVAL 1 MINUTE
), changes AS (
    SELECT holder_id, from_ts AS ts, 1 AS gpus FROM seen
    UNION ALL
    SELECT holder_id, to_ts, -1 FROM seen
), instants AS (
    SELECT holder_id, ts, sum(gpus) AS gpus FROM changes GROUP BY holder_id, ts
), levels AS (
    SELECT
        holder_id, sum(gpus) OVER held AS gpus,
        epoch_ms(lead(ts) OVER held) - epoch_ms(ts) AS lasted_ms
    FROM instants
    WINDOW held AS (PARTITION BY holder_id ORDER BY ts)
), runs AS (
    SELECT holder_id, max(gpus) AS gpus, sum(lasted_ms) AS held_ms
    FROM levels
    WHERE gpus > 0
    GROUP BY holder_id
), counted AS (
    SELECT
        h.kind, coalesce(r.gpus, 1)::BIGINT AS gpus, b.open,
        floor(8 * log2(greatest(coalesce(r.held_ms, 0), 30000) / 60000)) AS eighth
    FROM begun AS b JOIN holders AS h USING (holder_id) LEFT JOIN runs AS r USING (holder_id)
)
SELECT kind, gpus, 60 * pow(2, (eighth + 0.5) / 8) AS length_s, open, count(*) AS jobs
FROM counted
GROUP BY ALL
ORDER BY ALL
