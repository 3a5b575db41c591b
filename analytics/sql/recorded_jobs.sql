-- How many GPUs each job of a window held at once, how much of each, and for how long: what a simulation plays again.
--
-- A GPU that it held before or after another one is not one more. Where the number changed, it is the mean over the
-- time in which the job held any, in whole GPUs.
--
-- @param from_ts minute: start of the window
-- @param to_ts minute: end of the window, exclusive
-- @mark hours_to rollup_1h
-- @mark days_to rollup_1d
-- @column job text: the job's id
-- @column user_name text: whose
-- @column project text: for which project
-- @column job_name text: its name
-- @column gpus bigint (GPUs): how many it held at once
-- @column share double (fraction): how much of each, of a MIG instance its part of the device
-- @column from_ms bigint (ms): when it first held one, within the window
-- @column run_ms double (ms): the time that it had so many for, the times without any left out
-- @column began_before boolean: it held one when the window began
-- @column is_open boolean: it held one when the window ended, and went on
-- @column utilization_ratio double (ratio): used over measured time
-- @column idle_gpu_hours double (GPU-hours): of its time, allocated-empty or held-idle
-- @null gpus, share, from_ms, run_ms: in the ledger, and which GPUs it had is not kept; else: not known or not measured
WITH spells AS (
    SELECT
        a.holder_id, a.share * g.share_of_device AS part, greatest(a.from_ts, $from_ts) AS from_ts,
        least(coalesce(a.to_ts, $to_ts), $to_ts) AS to_ts, a.from_ts < $from_ts AS began_before,
        a.to_ts IS NULL OR a.to_ts > $to_ts AS is_open
    FROM allocations AS a JOIN gpus AS g USING (gpu_id)
    WHERE a.from_ts < $to_ts AND (a.to_ts IS NULL OR a.to_ts > $from_ts)
), instants AS (
    SELECT
        holder_id, sum(sum(change)) OVER (PARTITION BY holder_id ORDER BY ts) AS gpus,
        epoch_ms(lead(ts) OVER (PARTITION BY holder_id ORDER BY ts)) - epoch_ms(ts) AS ms
    FROM (SELECT holder_id, from_ts AS ts, 1 AS change FROM spells UNION ALL SELECT holder_id, to_ts, -1 FROM spells)
    GROUP BY holder_id, ts
), sizes AS (
    SELECT holder_id, greatest(1, round(sum(gpus * ms) / sum(ms) FILTER (WHERE gpus > 0)))::BIGINT AS gpus
    FROM instants GROUP BY holder_id
), sums AS (
    SELECT
        holder_id, epoch_ms(min(from_ts)) AS from_ms, bool_or(began_before) AS began_before, bool_or(is_open) AS is_open,
        sum(epoch_ms(to_ts) - epoch_ms(from_ts)) AS gpu_ms,
        sum(part * (epoch_ms(to_ts) - epoch_ms(from_ts))) AS part_ms
    FROM spells GROUP BY holder_id
), used AS (
    SELECT
        holder_id, sum_ratio(used_ms, measured_ms, share_of_device) AS utilization_ratio,
        sum_hours(allocated_empty_ms + held_idle_ms, share_of_device) AS idle_gpu_hours
    FROM holder_rows($from_ts, $to_ts, $hours_to, $days_to, NULL, NULL, NULL, NULL)
    WHERE holder_id IS NOT NULL
    GROUP BY holder_id
)
SELECT
    h.job, h.user_name, h.project, h.job_name, z.gpus, least(1.0, s.part_ms / nullif(s.gpu_ms, 0)) AS share, s.from_ms,
    nullif(s.gpu_ms, 0) / z.gpus AS run_ms, s.began_before, s.is_open, u.utilization_ratio, u.idle_gpu_hours
FROM sums AS s
JOIN sizes AS z USING (holder_id)
FULL JOIN used AS u USING (holder_id)
JOIN holders AS h USING (holder_id)
ORDER BY s.from_ms, h.job;
