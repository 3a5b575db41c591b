-- Adds the hours of a range to worked_minutes, from rollup_1m: those that rollup_hours will add, so it goes first.
--
-- Parameters
--   from_ms, to_ms   UTC ms, whole hours: those to add; GPUs that have the hour in rollup_1h are passed over
--   gpu_ids          INTEGER[]: these GPUs only; NULL: all
-- Rows added: one an (hour, GPU, holder), where the GPU has samples for the whole of each minute or for none of it,
-- and the state of what the holder had of it is known for all of the minute or for none of it.
INSERT INTO worked_minutes BY NAME
WITH minutes AS (
    SELECT
        ts, gpu_id, holder_id, low_saturation_ms + moderate_ms + good_ms AS work_ms,
        free_ms + allocated_empty_ms + held_idle_ms + work_ms AS own_ms, suspect_ms + withheld_ms + unknown_ms AS unclear_ms
    FROM rollup_1m
    WHERE ts >= epoch_ms(CAST($from_ms AS BIGINT)) AND ts < epoch_ms(CAST($to_ms AS BIGINT))
      AND gpu_id IN (SELECT gpu_id FROM gpus WHERE $gpu_ids IS NULL OR gpu_id IN (SELECT unnest($gpu_ids)))
), left_out AS (
    SELECT gpu_id, date_trunc('hour', ts) AS hour
    FROM (SELECT gpu_id, ts FROM minutes GROUP BY gpu_id, ts HAVING sum(own_ms + unclear_ms) <> 60000)
    UNION ALL
    SELECT gpu_id, ts FROM rollup_1h
    WHERE ts >= epoch_ms(CAST($from_ms AS BIGINT)) AND ts < epoch_ms(CAST($to_ms AS BIGINT))
)
SELECT
    date_trunc('hour', ts) AS ts,
    gpu_id,
    holder_id,
    bit_or(CASE WHEN work_ms > 0 THEN 1::BIGINT << minute(ts) ELSE 0 END) AS worked,
    bit_or(CASE WHEN own_ms > 0 THEN 1::BIGINT << minute(ts) ELSE 0 END) AS known
FROM minutes AS m
ANTI JOIN left_out AS l ON l.gpu_id = m.gpu_id AND l.hour = date_trunc('hour', m.ts)
WHERE holder_id IS NOT NULL
GROUP BY date_trunc('hour', ts), gpu_id, holder_id
HAVING bool_and(own_ms = 0 OR unclear_ms = 0)
ORDER BY 1, 2, 3;
