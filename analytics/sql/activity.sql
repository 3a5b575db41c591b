-- How each holder's minutes lie in time: runs of activity, and the gaps of quiet between them.
--
-- A minute of a holder is active when any of its GPUs was busy in it. Unmeasured minutes break neither runs nor gaps
-- and count in neither; time before the first run and after the last is no gap, but an edge. What is not rolled up yet
-- counts as not held.
--
-- @param from_ts minute: start of the window
-- @param to_ts minute: end of the window, exclusive
-- @mark minutes_to rollup_1m
-- @column job text: the job's id
-- @column user_name text: whose
-- @column project text: for which project
-- @column job_name text: its name
-- @column kind text: interactive, batch or inference
-- @column framework text: the likeliest framework
-- @column held_gpu_minutes bigint (min): minutes of every GPU that it held
-- @column measured_gpu_minutes double (min): of these, measured, and by counters that can be believed
-- @column suspect_gpu_minutes double (min): of these, by counters that contradict each other
-- @column minutes bigint (min): in which any of its GPUs was measured
-- @column active_minutes bigint (min): of these, active
-- @column runs bigint: runs of activity
-- @column run_median_minutes double (min): a run's length
-- @column run_longest_minutes bigint (min): the longest run
-- @column gap_median_minutes double (min): a gap's length
-- @column gap_longest_minutes bigint (min): the longest gap
-- @column edge_longest_minutes bigint (min): the longer of the times before the first run and after the last; 0 of none
-- @column utilization_ratio double (ratio): mean over the active minutes of each GPU: one that does nothing meanwhile is not in it
-- @column engine_minutes bigint (min): active minutes whose work the SMs do not account for: video engines at a quarter or more
-- @null not known; gaps: there were fewer than two runs
WITH spans AS (
    -- A minute is held when the middle of one of its two bins is, as in the roll-ups.
    SELECT gpu_id, holder_id,
        ((greatest(epoch_ms(from_ts), epoch_ms($from_ts)) + 14999) // 30000) // 2 AS first_minute,
        ((least(coalesce(epoch_ms(to_ts), epoch_ms($to_ts)), epoch_ms($to_ts), epoch_ms($minutes_to)) + 14999) // 30000
            - 1) // 2 AS last_minute
    FROM allocations
    WHERE from_ts < least($to_ts, $minutes_to) AND (to_ts IS NULL OR to_ts > $from_ts)
), held AS (
    -- A GPU whose share changed, or that was given back and again, has spans that touch: each minute counts once.
    SELECT holder_id, sum(greatest(0, last_minute - greatest(first_minute - 1, coalesce(seen_to, first_minute - 1))))
        AS held_gpu_minutes
    FROM (SELECT *, max(last_minute) OVER (PARTITION BY gpu_id, holder_id ORDER BY first_minute, last_minute
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS seen_to FROM spans)
    GROUP BY holder_id
    HAVING held_gpu_minutes > 0
), known AS (
    SELECT holder_id, ts, low_saturation_ms + moderate_ms + good_ms AS busy_ms, used_ms, engines_ms, measured_ms,
        0.25 * moderate_ms + 0.5 * good_ms AS least_ms, free_ms + allocated_empty_ms + held_idle_ms + busy_ms AS known_ms, suspect_ms, known_ms + suspect_ms + withheld_ms + unknown_ms AS all_ms
    FROM rollup_1m
    WHERE ts >= $from_ts AND ts < $to_ts AND holder_id IS NOT NULL
), doubted AS (
    SELECT holder_id, sum(suspect_ms / all_ms) AS suspect_gpu_minutes FROM known WHERE suspect_ms > 0 GROUP BY holder_id
), minutes AS (
    SELECT
        holder_id, ts, bool_or(busy_ms > 0) AS is_active, sum(least_ms) > 1.5 * sum(used_ms - engines_ms) AS by_engines, sum(used_ms) FILTER (busy_ms > 0) AS used_ms,
        sum(measured_ms) FILTER (busy_ms > 0) AS measured_ms, sum(known_ms / all_ms) AS measured_gpu_minutes
    FROM known
    WHERE known_ms > 0
    GROUP BY holder_id, ts
), changes AS (
    SELECT *, is_active IS DISTINCT FROM lag(is_active) OVER (PARTITION BY holder_id ORDER BY ts) AS begins
    FROM minutes
), numbered AS (
    SELECT *, sum(begins::INTEGER) OVER (PARTITION BY holder_id ORDER BY ts ROWS UNBOUNDED PRECEDING) AS number
    FROM changes
), stretches AS (
    SELECT holder_id, number, is_active, count(*) AS length, count(*) FILTER (by_engines) AS engine_minutes, sum(used_ms) AS used_ms, sum(measured_ms) AS measured_ms,
        sum(measured_gpu_minutes) AS measured_gpu_minutes
    FROM numbered GROUP BY holder_id, number, is_active
), placed AS (
    SELECT *, min(number) FILTER (WHERE is_active) OVER (PARTITION BY holder_id) AS first_run,
        max(number) FILTER (WHERE is_active) OVER (PARTITION BY holder_id) AS last_run
    FROM stretches
)
SELECT
    h.job, h.user_name, h.project, h.job_name, h.kind, h.framework,
    coalesce(g.held_gpu_minutes, 0)::BIGINT AS held_gpu_minutes,
    coalesce(sum(measured_gpu_minutes), 0) AS measured_gpu_minutes, coalesce(any_value(d.suspect_gpu_minutes), 0)::DOUBLE AS suspect_gpu_minutes,
    coalesce(sum(length), 0)::BIGINT AS minutes,
    coalesce(sum(length) FILTER (WHERE is_active), 0)::BIGINT AS active_minutes,
    count(*) FILTER (WHERE is_active) AS runs, median(length) FILTER (WHERE is_active) AS run_median_minutes,
    max(length) FILTER (WHERE is_active) AS run_longest_minutes,
    median(length) FILTER (WHERE NOT is_active AND number BETWEEN first_run AND last_run) AS gap_median_minutes,
    max(length) FILTER (WHERE NOT is_active AND number BETWEEN first_run AND last_run) AS gap_longest_minutes,
    coalesce(max(length) FILTER (WHERE NOT is_active AND number NOT BETWEEN first_run AND last_run), 0)::BIGINT
        AS edge_longest_minutes,
    ratio_of(sum(used_ms) FILTER (WHERE is_active), sum(measured_ms) FILTER (WHERE is_active))
        AS utilization_ratio,
    coalesce(sum(engine_minutes) FILTER (WHERE is_active), 0)::BIGINT AS engine_minutes
FROM held AS g
FULL JOIN placed USING (holder_id)
LEFT JOIN doubted AS d USING (holder_id)
JOIN holders AS h USING (holder_id)
GROUP BY ALL
ORDER BY h.job;
