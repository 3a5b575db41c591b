-- How much of the time each held GPU's memory was read or written, kernels and video engines ran, while it worked, from raw
-- samples.
--
-- @param as_of instant: the instant
-- @param from_ts minute: start of the window
-- @column uuid text: the GPU
-- @column controller_p95_ratio double (ratio): that 19 of 20 working samples do not exceed
-- @column kernels_ratio double (ratio): share of time in which any kernel ran, the median of working samples
-- @column engines_max_ratio double (ratio): the most that a video engine did: encoder, decoder, JPEG or optical flow
-- @null not measured; a GPU that nobody holds, or that never worked, has no row
SELECT g.uuid, quantile_disc(s.memory_controller_e4, 0.95) FILTER (s.utilization_e4 > 100) / 10000.0 AS controller_p95_ratio,
    quantile_disc(s.gpu_utilization_e4, 0.5) FILTER (s.utilization_e4 > 100) / 10000.0 AS kernels_ratio,
    max(greatest(s.encoder_e4, s.decoder_e4, s.jpeg_e4, s.ofa_e4)) / 10000.0 AS engines_max_ratio
FROM samples_all AS s
JOIN gpus AS g USING (gpu_id)
WHERE s.ts > $from_ts AND s.ts <= $as_of
    AND (s.utilization_e4 > 100 OR greatest(s.encoder_e4, s.decoder_e4, s.jpeg_e4, s.ofa_e4) > 100)
    AND s.gpu_id IN (
        SELECT gpu_id FROM allocations WHERE from_ts <= $as_of AND (to_ts IS NULL OR to_ts >= $as_of))
GROUP BY g.uuid
ORDER BY g.uuid;
