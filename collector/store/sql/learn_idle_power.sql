-- Lowers each GPU's idle power to its median over the samples of a range in which no process was on it and
-- nothing ran. Only ever lowered, so that doing a range again changes nothing. Power that no idle board draws is none:
-- counters that see nothing would make it so.
-- Parameters: from_ms, to_ms (UTC ms, half-open).
UPDATE gpus SET idle_power_mw = seen.power_mw
FROM (
    SELECT gpu_id, quantile_disc(power_mw, 0.5) AS power_mw
    FROM samples_all
    JOIN gpus USING (gpu_id)
    WHERE ts > epoch_ms(CAST($from_ms AS BIGINT)) AND ts <= epoch_ms(CAST($to_ms AS BIGINT))
      AND power_mw > 0
      AND NOT power_denies_idle(0, power_mw, NULL, power_limit_mw, NULL)
      AND NOT process_is_present(process_count, memory_used_bytes, memory_total_bytes, memory_free_bytes, NULL)
      AND busiest_of(utilization_e4, gpu_utilization_e4, graphics_active_e4, sm_active_e4,
        greatest(encoder_e4, decoder_e4, jpeg_e4, ofa_e4)) <= 100
    GROUP BY gpu_id
) AS seen
WHERE seen.gpu_id = gpus.gpu_id AND (idle_power_mw IS NULL OR idle_power_mw > seen.power_mw);
