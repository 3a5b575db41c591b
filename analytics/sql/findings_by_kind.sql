-- What is open by kind, on how many GPUs, and what their holders wasted on these in the window.
--
-- Within a kind a GPU and a GPU-hour count once, however many findings there are about it; of a finding about a whole
-- job all its GPUs count. Kinds overlap: their sum is no sum, which `waste` gives.
--
-- @param from_ts minute: start of the window
-- @param to_ts minute: end of the window, exclusive
-- @mark hours_to rollup_1h
-- @mark days_to rollup_1d
-- @column kind text: held-idle, allocated-empty, ...
-- @column findings bigint: how many are open
-- @column gpus bigint (GPUs): on how many GPUs
-- @column wasted_gpu_hours double (GPU-hours): allocated-empty and held-idle by their holders there, in the window
-- @null wasted_gpu_hours: findings of this kind are about no waste
WITH chosen AS (
    SELECT
        finding_id, kind, gpu_id, holder_id, kind IN ('uses-part', 'straggler', 'may-hang') AS is_of_job,
        kind IN ('suspect-counters', 'zombie-memory', 'falling-gpu', 'intruder', 'unproven-claim') AS is_no_waste
    FROM findings
    WHERE closed_at IS NULL
), placed AS (
    SELECT DISTINCT kind, gpu_id, CASE WHEN NOT is_no_waste THEN holder_id END AS holder_id FROM chosen
    UNION
    SELECT c.kind, a.gpu_id, c.holder_id
    FROM chosen AS c JOIN allocations AS a ON a.holder_id = c.holder_id AND a.to_ts IS NULL
    WHERE c.is_of_job
), spent AS (
    SELECT gpu_id, holder_id, sum(allocated_empty_ms + held_idle_ms)::BIGINT AS wasted_ms
    FROM usage($from_ts, $to_ts, $hours_to, $days_to)
    WHERE holder_id IN (SELECT holder_id FROM placed)
    GROUP BY gpu_id, holder_id
), on_gpus AS (
    SELECT p.kind, count(DISTINCT p.gpu_id) AS gpus, sum_hours(s.wasted_ms, g.share_of_device) AS wasted_gpu_hours
    FROM placed AS p
    JOIN gpus AS g USING (gpu_id)
    LEFT JOIN spent AS s ON s.gpu_id = p.gpu_id AND s.holder_id = p.holder_id
    GROUP BY p.kind
), counted AS (
    SELECT kind, count(*) AS findings, bool_or(NOT is_no_waste) AS is_waste FROM chosen GROUP BY kind
)
SELECT
    c.kind, c.findings, o.gpus, CASE WHEN c.is_waste THEN coalesce(o.wasted_gpu_hours, 0.0) END AS wasted_gpu_hours
FROM counted AS c
JOIN on_gpus AS o USING (kind)
ORDER BY c.kind;
