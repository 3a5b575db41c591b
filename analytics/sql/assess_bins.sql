-- The 30 s bins of every GPU between two instants, from raw samples. A bin that no sample reaches has no row. A sample
-- is in the bin of its own middle; a wider one than a bin in all that it reaches, with as much of each as it covers: else
-- an idle time would begin up to 15 s before the work ended.
--
-- @param bins_from instant: start of the first bin
-- @param bins_to instant: end of the last bin
-- @param as_of instant: samples up to here; wide ones reach back into the last bins
-- @param gpu_ids counts = NULL: only these GPUs; NULL: all
-- @column gpu_id integer: the GPU's number in the store
-- @column bin bigint: which bin, the first is 0
-- @column covered boolean: samples cover at least half of it
-- @column utilization_ratio float (ratio): mean on the best rung
-- @column busiest_ratio float (ratio): the largest mean of any rung, and of the engines below that do more than noise
-- @column video_ratio float (ratio): the busiest engine beside the SMs: video encoder and decoder, JPEG, optical flow
-- @column gpu_utilization_ratio float (ratio): share of time in which any kernel ran
-- @column memory_controller_ratio float (ratio): share of time in which memory was read or written
-- @column copies_ratio float (ratio): that, or the share of cycles in which memory was active, if more, in a bin in which nothing computed
-- @column hot_ratio float (ratio): share of its samples in which heat held the clocks down: NVML's reasons 0x20 and 0x40
-- @column memory_used_bytes bigint (bytes): the most used
-- @column power_mw integer (mW): drawn
-- @column process_count smallint: the most processes
-- @null not measured; copies_ratio: it computed, or nothing was copied
WITH near AS (
    SELECT *, epoch_ms(ts) - epoch_ms($bins_from) AS end_ms
    FROM samples_all
    WHERE ts > $bins_from AND ts <= $as_of AND ($gpu_ids IS NULL OR list_contains($gpu_ids, gpu_id))
), parts AS (
    SELECT * EXCLUDE (end_ms), end_ms, width_ms AS ms, (end_ms - width_ms // 2 - 1) // 30000 AS bin
    FROM near WHERE width_ms <= 30000
    UNION ALL
    SELECT * EXCLUDE (bin), least(end_ms, (bin + 1) * 30000) - greatest(end_ms - width_ms, bin * 30000) AS ms, bin
    FROM (
        SELECT *, unnest(range((end_ms - width_ms) // 30000, (end_ms + 29999) // 30000)) AS bin
        FROM near WHERE width_ms > 30000)
), bins AS (
    SELECT
        gpu_id, bin, sum(ms) >= 15000 AS covered,
        sum(utilization_e4 * ms) / sum(ms) FILTER (WHERE utilization_e4 IS NOT NULL) AS utilization_e4,
        sum(gpu_utilization_e4 * ms) / sum(ms) FILTER (WHERE gpu_utilization_e4 IS NOT NULL) AS gpu_utilization_e4,
        sum(graphics_active_e4 * ms) / sum(ms) FILTER (WHERE graphics_active_e4 IS NOT NULL) AS graphics_active_e4,
        sum(sm_active_e4 * ms) / sum(ms) FILTER (WHERE sm_active_e4 IS NOT NULL) AS sm_active_e4,
        sum(encoder_e4 * ms) / sum(ms) FILTER (WHERE encoder_e4 IS NOT NULL) AS encoder_e4,
        sum(decoder_e4 * ms) / sum(ms) FILTER (WHERE decoder_e4 IS NOT NULL) AS decoder_e4,
        sum(jpeg_e4 * ms) / sum(ms) FILTER (WHERE jpeg_e4 IS NOT NULL) AS jpeg_e4,
        sum(ofa_e4 * ms) / sum(ms) FILTER (WHERE ofa_e4 IS NOT NULL) AS ofa_e4,
        avg(memory_controller_e4) AS memory_controller_e4, greatest(avg(memory_controller_e4), avg(dram_active_e4)) AS traffic_e4,
        avg(((throttle_reasons & 96) <> 0)::INTEGER)::FLOAT AS hot_ratio, max(memory_used_bytes) AS memory_used_bytes,
        avg(power_mw)::INTEGER AS power_mw, max(process_count) AS process_count
    FROM parts
    WHERE bin >= 0 AND bin < (epoch_ms($bins_to) - epoch_ms($bins_from)) // 30000
    GROUP BY gpu_id, bin
)
SELECT
    gpu_id, bin, covered, (utilization_e4 / 10000)::FLOAT AS utilization_ratio,
    (busiest_of(utilization_e4, gpu_utilization_e4, graphics_active_e4, sm_active_e4,
        greatest(encoder_e4, decoder_e4, jpeg_e4, ofa_e4)) / 10000)::FLOAT AS busiest_ratio,
    (greatest(encoder_e4, decoder_e4, jpeg_e4, ofa_e4) / 10000)::FLOAT AS video_ratio,
    (gpu_utilization_e4 / 10000)::FLOAT AS gpu_utilization_ratio,
    (memory_controller_e4 / 10000)::FLOAT AS memory_controller_ratio, CASE WHEN is_copying(
        busiest_of(utilization_e4, gpu_utilization_e4, graphics_active_e4, sm_active_e4,
            greatest(encoder_e4, decoder_e4, jpeg_e4, ofa_e4)), traffic_e4)
        THEN (traffic_e4 / 10000)::FLOAT END AS copies_ratio, hot_ratio, memory_used_bytes, power_mw, process_count
FROM bins;
