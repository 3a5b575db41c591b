-- How each holder's minutes lie in time: runs of activity, and the gaps of quiet between them.
--
-- A minute of a holder is active when any of its GPUs was busy in it. Unmeasured minutes break neither runs nor gaps
-- and count in neither; time before the first run and after the last is no gap.
--
-- @param from_ts minute: start of the window
-- @param to_ts minute: end of the window, exclusive
-- @column job text: the job's id
-- @column user_name text: whose
-- @column project text: for which project
-- @column job_name text: its name
-- @column kind text: interactive, batch or inference
-- @column framework text: the likeliest framework
-- @column minutes bigint (min): measured
-- @column active_minutes bigint (min): of these, active
-- @column runs bigint: runs of activity
-- @column run_median_minutes double (min): a run's length
-- @column run_longest_minutes bigint (min): the longest run
-- @column gap_median_minutes double (min): a gap's length
-- @column gap_longest_minutes bigint (min): the longest gap
-- @column utilization_ratio double (ratio): mean over active minutes
-- @null not known; gaps: there were fewer than two runs
WITH minutes AS (
    SELECT
        holder_id, ts, bool_or(low_saturation_ms + moderate_ms + good_ms > 0) AS is_active,
        sum(used_ms) AS used_ms, sum(measured_ms) AS measured_ms
    FROM rollup_1m
    WHERE ts >= $from_ts AND ts < $to_ts AND holder_id IS NOT NULL AND unknown_ms + suspect_ms < 60000
    GROUP BY holder_id, ts
), changes AS (
    SELECT *, is_active IS DISTINCT FROM lag(is_active) OVER (PARTITION BY holder_id ORDER BY ts) AS begins
    FROM minutes
), numbered AS (
    SELECT *, sum(begins::INTEGER) OVER (PARTITION BY holder_id ORDER BY ts ROWS UNBOUNDED PRECEDING) AS number
    FROM changes
), stretches AS (
    SELECT holder_id, number, is_active, count(*) AS length, sum(used_ms) AS used_ms, sum(measured_ms) AS measured_ms
    FROM numbered GROUP BY holder_id, number, is_active
), placed AS (
    SELECT *, min(number) FILTER (WHERE is_active) OVER (PARTITION BY holder_id) AS first_run,
        max(number) FILTER (WHERE is_active) OVER (PARTITION BY holder_id) AS last_run
    FROM stretches
)
SELECT
    h.job, h.user_name, h.project, h.job_name, h.kind, h.framework, sum(length)::BIGINT AS minutes,
    coalesce(sum(length) FILTER (WHERE is_active), 0)::BIGINT AS active_minutes,
    count(*) FILTER (WHERE is_active) AS runs, median(length) FILTER (WHERE is_active) AS run_median_minutes,
    max(length) FILTER (WHERE is_active) AS run_longest_minutes,
    median(length) FILTER (WHERE NOT is_active AND number BETWEEN first_run AND last_run) AS gap_median_minutes,
    max(length) FILTER (WHERE NOT is_active AND number BETWEEN first_run AND last_run) AS gap_longest_minutes,
    sum(used_ms) FILTER (WHERE is_active) / nullif(sum(measured_ms) FILTER (WHERE is_active), 0) AS utilization_ratio
FROM placed
JOIN holders AS h USING (holder_id)
GROUP BY ALL
ORDER BY h.job;
