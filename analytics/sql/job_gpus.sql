-- What one job made of each of its GPUs in the window.
--
-- @param job text: the job's id
-- @param from_ts minute: start of the window
-- @param to_ts minute: end of the window, exclusive
-- @mark hours_to rollup_1h
-- @mark days_to rollup_1d
-- @column uuid text: the GPU
-- @column node text: its machine
-- @column gpu_index integer: its index there
-- @column gpu_place text: what it is called there; of a MIG instance with profile and number (0/1g.10gb#7)
-- @column model text: its model
-- @column mig_profile text: the profile of a MIG instance
-- @column from_ts timestamp: given since
-- @column from_is_bound boolean: its records begin then, so that the job may have had it before
-- @column to_ts timestamp: given until
-- @column gpu_hours double (GPU-hours): held in the window
-- @column used_gpu_hours double (GPU-hours): utilization times measured time
-- @column wasted_gpu_hours double (GPU-hours): of those held, empty or idle
-- @column low_saturation_gpu_hours double (GPU-hours): busy, under 25%
-- @column busy_gpu_hours double (GPU-hours): in use, however little
-- @column unknown_gpu_hours double (GPU-hours): not measured
-- @column utilization_ratio double (ratio): used over measured time
-- @column rung tinyint: the lowest rung that went in (1 GPU utilization: an upper bound; 3 SM active)
-- @column memory_used_max_bytes bigint (bytes): the most used
-- @column memory_total_bytes bigint (bytes): the memory of it
-- @column found text: the kinds of what was found about the job on it in the window, comma-separated
-- @column energy_kwh double (kWh): used in that time
-- @column energy_known_ratio double (ratio): the part of gpu_hours in which energy was measured
-- @column wasted_energy_kwh double (kWh): used while wasted
-- @column wasted_energy_known_ratio double (ratio): the part of wasted_gpu_hours of which energy is known
-- @column shared_with bigint: other jobs that held it at the same time
-- @column is_told_apart boolean: meanwhile use of single processes or pods was told; where it was not, all are charged alike, by share
-- @never_null uuid, node
-- @null is_told_apart: nobody shared it, or what its processes did is not kept that long; to_ts: it still holds it, as far as is known; found: nothing; ratios of energy: no hours; else: not known or not measured
WITH own AS (
    SELECT holder_id FROM holders WHERE job = $job
), given AS (
    SELECT
        gpu_id, min(from_ts) AS from_ts,
        CASE WHEN NOT bool_or(still_held(to_ts, l.ts, l.width_ms)) THEN max(to_ts) END AS to_ts
    FROM allocations SEMI JOIN own USING (holder_id) LEFT JOIN latest AS l USING (gpu_id)
    WHERE from_ts < $to_ts AND (to_ts IS NULL OR to_ts > $from_ts)
    GROUP BY gpu_id
), beside AS (  -- the times in which another job held it too
    SELECT
        m.gpu_id, o.holder_id, greatest(m.from_ts, o.from_ts, $from_ts) AS from_ts,
        least(coalesce(m.to_ts, $to_ts), coalesce(o.to_ts, $to_ts), $to_ts) AS to_ts
    FROM allocations AS m
    SEMI JOIN own USING (holder_id)
    JOIN allocations AS o ON o.gpu_id = m.gpu_id AND o.holder_id <> m.holder_id
        AND (o.to_ts IS NULL OR o.to_ts > m.from_ts) AND (m.to_ts IS NULL OR o.from_ts < m.to_ts)
    WHERE m.from_ts < $to_ts AND (m.to_ts IS NULL OR m.to_ts > $from_ts)
        AND o.from_ts < $to_ts AND (o.to_ts IS NULL OR o.to_ts > $from_ts)
), persons AS (  -- a process of which no job is known is its person's, if that is one of the holders
    SELECT b.gpu_id, h.user_name
    FROM beside AS b JOIN holders AS h ON h.holder_id = b.holder_id OR h.job = $job
    WHERE h.user_name IS NOT NULL
    GROUP BY ALL
), pods AS (
    SELECT DISTINCT b.gpu_id
    FROM beside AS b
    JOIN holder_samples AS s ON s.gpu_id = b.gpu_id AND s.ts > b.from_ts AND s.ts <= b.to_ts
    WHERE s.gpu_utilization_e4 IS NOT NULL
), shared AS (
    SELECT
        b.gpu_id, count(DISTINCT b.holder_id) AS shared_with,
        coalesce(bool_or(
            coalesce(s.sm_e4, 0) > 0 AND p.holder_id IS NULL AND u.gpu_id IS NULL AND i.process_id IS NULL), false) AS any_unknown,
        min(b.from_ts) < any_value(k.complete_to) AS is_cut,
        CASE WHEN b.gpu_id IN (SELECT gpu_id FROM pods) THEN true WHEN any_unknown THEN false WHEN is_cut THEN NULL
            ELSE coalesce(bool_or(s.sm_e4 IS NOT NULL), false) END AS is_told_apart
    FROM beside AS b
    LEFT JOIN process_samples AS s ON s.gpu_id = b.gpu_id AND s.ts > b.from_ts AND s.ts <= b.to_ts
    LEFT JOIN processes AS p ON p.process_id = s.process_id
    LEFT JOIN (SELECT DISTINCT gpu_id, process_id FROM intrusions) AS i
        ON i.gpu_id = s.gpu_id AND i.process_id = s.process_id
    LEFT JOIN persons AS u ON u.gpu_id = b.gpu_id AND u.user_name = p.user_name
    LEFT JOIN watermarks AS k ON k.name = 'processes_kept'
    GROUP BY b.gpu_id
), rolled AS (
    SELECT
        gpu_id, sum(free_ms + allocated_empty_ms + held_idle_ms + low_saturation_ms + moderate_ms + good_ms + suspect_ms
            + withheld_ms + unknown_ms)::BIGINT AS total_ms,
        sum(used_ms)::BIGINT AS used_ms, sum(measured_ms)::BIGINT AS measured_ms,
        sum(allocated_empty_ms + held_idle_ms)::BIGINT AS wasted_ms, sum(low_saturation_ms)::BIGINT AS low_ms,
        sum(low_saturation_ms + moderate_ms + good_ms)::BIGINT AS busy_ms, sum(unknown_ms)::BIGINT AS unknown_ms,
        min(rung) FILTER (WHERE measured_ms > 0)::TINYINT AS rung, max(memory_used_max_bytes) AS memory_used_max_bytes,
        sum(energy_mj)::BIGINT AS energy_mj, sum(energy_ms)::BIGINT AS energy_ms,
        sum(coalesce(allocated_empty_energy_mj, 0) + coalesce(held_idle_energy_mj, 0))::BIGINT AS wasted_energy_mj,
        sum(wasted_energy_ms)::BIGINT AS wasted_energy_ms
    FROM usage($from_ts, $to_ts, $hours_to, $days_to)
    WHERE holder_id IN (SELECT holder_id FROM own)
    GROUP BY gpu_id
), said AS (
    SELECT gpu_id, string_agg(DISTINCT kind, ', ' ORDER BY kind) AS found
    FROM findings SEMI JOIN own USING (holder_id)
    WHERE opened_at <= $to_ts AND (closed_at IS NULL OR closed_at > $from_ts)
        AND kind NOT IN ('uses-part', 'straggler', 'may-hang')
    GROUP BY gpu_id
)
SELECT
    g.uuid, g.node, g.gpu_index,
    gpu_place(g.gpu_index, g.uuid, g.parent_uuid, g.mig_profile, g.gpu_instance, g.compute_instance) AS gpu_place,
    g.model, g.mig_profile, a.from_ts,
    a.from_ts <= g.installed_from + INTERVAL 30 SECOND AS from_is_bound, a.to_ts,
    coalesce(total_ms * share_of_device / 3600000.0, 0.0) AS gpu_hours,
    coalesce(used_ms * share_of_device / 3600000.0, 0.0) AS used_gpu_hours,
    coalesce(wasted_ms * share_of_device / 3600000.0, 0.0) AS wasted_gpu_hours,
    coalesce(low_ms * share_of_device / 3600000.0, 0.0) AS low_saturation_gpu_hours,
    coalesce(busy_ms * share_of_device / 3600000.0, 0.0) AS busy_gpu_hours,
    coalesce(unknown_ms * share_of_device / 3600000.0, 0.0) AS unknown_gpu_hours,
    ratio_of(used_ms, measured_ms) AS utilization_ratio, r.rung, r.memory_used_max_bytes, g.memory_total_bytes, f.found,
    kwh(energy_mj, energy_ms, total_ms) AS energy_kwh,
    coalesce(energy_ms, 0) / nullif(total_ms, 0) AS energy_known_ratio,
    kwh(wasted_energy_mj, wasted_energy_ms, wasted_ms) AS wasted_energy_kwh,
    coalesce(wasted_energy_ms, 0) / nullif(wasted_ms, 0) AS wasted_energy_known_ratio,
    coalesce(h.shared_with, 0) AS shared_with, h.is_told_apart
FROM given AS a
JOIN gpus AS g USING (gpu_id)
LEFT JOIN rolled AS r USING (gpu_id)
LEFT JOIN said AS f USING (gpu_id)
LEFT JOIN shared AS h USING (gpu_id)
ORDER BY g.node, g.gpu_index, g.uuid;
