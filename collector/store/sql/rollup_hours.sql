-- Adds the hours of a range to rollup_1h, from rollup_1m.
--
-- Parameters
--   from_ms, to_ms   UTC ms, whole hours: those to add; what is there for a GPU and hour stays
--   gpu_ids          INTEGER[]: these GPUs only; NULL: all
-- Rows added: one an (hour, GPU, holder); milliseconds and energy are sums, memory the mean of the minutes
-- that have one. NULL: not measured.
INSERT INTO rollup_1h BY NAME
SELECT
    date_trunc('hour', ts) AS ts,
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
FROM rollup_1m AS minute
ANTI JOIN (
    SELECT DISTINCT ts AS hour, gpu_id
    FROM rollup_1h
    WHERE ts >= epoch_ms(CAST($from_ms AS BIGINT)) AND ts < epoch_ms(CAST($to_ms AS BIGINT))
) AS there ON there.gpu_id = minute.gpu_id AND there.hour = date_trunc('hour', minute.ts)
WHERE ts >= epoch_ms(CAST($from_ms AS BIGINT)) AND ts < epoch_ms(CAST($to_ms AS BIGINT))
  AND gpu_id IN (SELECT gpu_id FROM gpus WHERE $gpu_ids IS NULL OR gpu_id IN (SELECT unnest($gpu_ids)))
GROUP BY date_trunc('hour', ts), gpu_id, holder_id
ORDER BY 1, 2, 3;
