-- In how much of the window anything was measured: what a sum over the window rests on.
--
-- @param from_ts minute: start of the window
-- @param to_ts minute: end of the window, exclusive
-- @param node text = NULL: only by GPUs of this node
-- @param model text = NULL: only by GPUs of this model
-- @mark hours_to rollup_1h
-- @mark days_to rollup_1d
-- @column measured_s double (s): time in which the state of a GPU was known, of the GPU of which it was known longest
-- @never_null measured_s
-- @null none: of a window in which nothing was measured it is 0
WITH known AS (
    SELECT u.ts, sum(
        u.free_ms + u.allocated_empty_ms + u.held_idle_ms + u.low_saturation_ms + u.moderate_ms + u.good_ms + u.suspect_ms
    )::BIGINT AS known_ms
    FROM usage($from_ts, $to_ts, $hours_to,  -- hour by hour, for one GPU may have been measured then and another later
        CASE WHEN $to_ts > $from_ts + INTERVAL 62 DAY THEN $days_to ELSE TIMESTAMP '1970-01-01' END) AS u
    JOIN gpus AS g USING (gpu_id)
    WHERE ($node IS NULL OR g.node = $node) AND ($model IS NULL OR g.model = $model)
    GROUP BY u.ts, gpu_id
)
SELECT coalesce(sum(longest_ms), 0) / 1000.0 AS measured_s
FROM (SELECT max(known_ms) AS longest_ms FROM known GROUP BY ts);
