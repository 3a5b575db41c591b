-- Adds the days of a range to rollup_1d, from rollup_1h; what is there of them must have been removed before.
--
-- Parameters
--   from_ms, to_ms   UTC ms, whole days: those to add
--   gpu_ids          INTEGER[]: these GPUs only; NULL: all
-- Rows added: one a (UTC day, GPU, holder); milliseconds and energy are sums, memory the mean of the hours that
-- have one. NULL: not measured.
INSERT INTO rollup_1d BY NAME
SELECT
    time_bucket(INTERVAL 1 DAY, ts) AS ts,
    gpu_id,
    holder_id,
    sum(free_ms) AS free_ms,
    sum(allocated_empty_ms) AS allocated_empty_ms,
    sum(held_idle_ms) AS held_idle_ms,
    sum(low_saturation_ms) AS low_saturation_ms,
    sum(faint_ms) AS faint_ms,
    sum(copied_ms) AS copied_ms,
    sum(moderate_ms) AS moderate_ms,
    sum(good_ms) AS good_ms,
    sum(suspect_ms) AS suspect_ms,
    sum(withheld_ms) AS withheld_ms,
    sum(unknown_ms) AS unknown_ms,
    sum(held_ms) AS held_ms,
    sum(measured_ms) AS measured_ms,
    sum(used_ms) AS used_ms,
    sum(engines_ms) AS engines_ms,
    max(utilization_max_e4) AS utilization_max_e4,
    max(controller_max_e4) AS controller_max_e4,
    coalesce(min(rung) FILTER (rung > 0), 0) AS rung,
    CAST(avg(memory_used_mean_bytes) AS BIGINT) AS memory_used_mean_bytes,
    max(memory_used_max_bytes) AS memory_used_max_bytes,
    sum(energy_mj) AS energy_mj,
    sum(free_energy_mj) AS free_energy_mj,
    sum(allocated_empty_energy_mj) AS allocated_empty_energy_mj,
    sum(held_idle_energy_mj) AS held_idle_energy_mj,
    sum(low_saturation_energy_mj) AS low_saturation_energy_mj,
    sum(moderate_energy_mj) AS moderate_energy_mj,
    sum(good_energy_mj) AS good_energy_mj,
    sum(suspect_energy_mj) AS suspect_energy_mj,
    sum(withheld_energy_mj) AS withheld_energy_mj,
    sum(unknown_energy_mj) AS unknown_energy_mj,
    sum(energy_ms) AS energy_ms,
    sum(state_energy_ms) AS state_energy_ms,
    sum(wasted_energy_ms) AS wasted_energy_ms
FROM rollup_1h
WHERE ts >= epoch_ms(CAST($from_ms AS BIGINT)) AND ts < epoch_ms(CAST($to_ms AS BIGINT))
  AND gpu_id IN (SELECT gpu_id FROM gpus WHERE $gpu_ids IS NULL OR gpu_id IN (SELECT unnest($gpu_ids)))
GROUP BY ALL
ORDER BY 1, 2, 3;
