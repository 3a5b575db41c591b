-- What each project held lately, as a share of all GPU time that was rolled up, the older the less it counts.
--
-- @param from_ts minute: start of the window
-- @param to_ts minute: end of the window, exclusive
-- @param half_life_h count = 168: after so many hours a GPU-hour counts half
-- @mark hours_to rollup_1h
-- @column project text: the project
-- @column allocated_ratio double (ratio): held
-- @column held_idle_ratio double (ratio): held, and empty or idle
-- @null project: jobs of which none is known
WITH weighed AS (
    SELECT u.*, share_of_device * pow(0.5, (epoch_ms($to_ts) - epoch_ms(u.ts)) / 3600000.0 / $half_life_h) AS weight
    FROM usage($from_ts, $to_ts, $hours_to, TIMESTAMP '1970-01-01') AS u JOIN gpus AS g USING (gpu_id)
), whole AS (
    SELECT
        sum(weight * (free_ms + allocated_empty_ms + held_idle_ms + low_saturation_ms + moderate_ms + good_ms
            + suspect_ms + withheld_ms + unknown_ms)) AS ms
    FROM weighed
)
SELECT
    h.project, sum(w.held_ms * w.weight) / any_value(a.ms) AS allocated_ratio,
    sum((w.allocated_empty_ms + w.held_idle_ms) * w.weight) / any_value(a.ms) AS held_idle_ratio
FROM weighed AS w
JOIN holders AS h USING (holder_id)
CROSS JOIN whole AS a
GROUP BY h.project
ORDER BY h.project;
