-- What works beside the SMs is work: the video encoder and decoder, the JPEG decoder and the optical flow accelerator.
-- And memory under the idle floor is no proof that nobody is there.
--
-- samples.jpeg_e4, ofa_e4   as encoder_e4 and decoder_e4
-- latest.engines_e4         the busiest of the four
-- gpus.memory_free_bytes    the least memory seen while nobody held it: what the driver keeps for itself. NULL until then
ALTER TABLE samples ADD COLUMN jpeg_e4 SMALLINT;
ALTER TABLE samples ADD COLUMN ofa_e4 SMALLINT;
ALTER TABLE latest_apart ADD COLUMN engines_e4 SMALLINT;
ALTER TABLE gpus ADD COLUMN memory_free_bytes BIGINT;

UPDATE gpus SET memory_free_bytes = seen.bytes
FROM (
    SELECT gpu_id, min(memory_used_mean_bytes) AS bytes FROM rollup_1h
    WHERE holder_id IS NULL AND free_ms > 0 GROUP BY gpu_id
) AS seen
WHERE seen.gpu_id = gpus.gpu_id;

CREATE OR REPLACE VIEW samples_all AS SELECT * FROM samples;

CREATE OR REPLACE VIEW latest AS
FROM (
    SELECT
        ts, gpu_id, width_ms, rung, utilization_e4, gpu_utilization_e4, graphics_active_e4, sm_active_e4,
        memory_used_bytes, power_mw, temperature_c, process_count, flags,
        greatest(encoder_e4, decoder_e4, jpeg_e4, ofa_e4) AS engines_e4
    FROM samples JOIN latest_times USING (ts)
    UNION ALL BY NAME
    FROM latest_apart
)
QUALIFY row_number() OVER (PARTITION BY gpu_id ORDER BY ts DESC) = 1;

-- Whether a process is there: counted; or, when nobody counted, yes where the GPU is busy or its memory above the idle
-- floor, no where its memory is within 64 MiB of what it is when nobody holds it (a CUDA context takes more). NULL: no
-- way to tell.
CREATE OR REPLACE MACRO process_is_present(
    process_count, memory_used_bytes, memory_total_bytes, memory_free_bytes, busiest_e4
) AS
    CASE
        WHEN process_count IS NOT NULL THEN process_count > 0
        WHEN busiest_e4 > 100 THEN true
        WHEN memory_used_bytes > idle_memory_floor_bytes(memory_total_bytes) THEN true
        WHEN memory_used_bytes <= coalesce(memory_free_bytes, 0) + 67108864 THEN false
    END;

-- 0 unknown, 1 free, 2 allocated-empty, 3 held-idle, 4 low-saturation, 5 moderate, 6 good, 7 suspect.
-- busiest_e4: the largest of all rungs and engines there are; utilization_e4: the best rung; engines_e4: the busiest
-- engine beside the SMs. What is held, does nothing, and may or may not have a process, is held-idle; what nobody
-- holds is unknown then. A process of nobody that does nothing and has no memory to speak of (a desktop's, a
-- daemon's) leaves its GPU free.
CREATE OR REPLACE MACRO gpu_state_of(
    held, present, process_count, memory_above_floor, busiest_e4, utilization_e4, engines_e4, gpu_utilization_e4,
    power_mw, idle_power_mw
) AS
    CASE
        WHEN gpu_utilization_e4 >= 9000 AND process_count = 0 THEN 7
        WHEN gpu_utilization_e4 >= 9000 AND power_mw <= 1.1 * idle_power_mw THEN 7
        WHEN busiest_e4 > 100 THEN
            CASE
                WHEN greatest(coalesce(utilization_e4, busiest_e4), engines_e4) < 2500 THEN 4
                WHEN greatest(coalesce(utilization_e4, busiest_e4), engines_e4) < 5000 THEN 5
                ELSE 6
            END
        WHEN present AND busiest_e4 IS NULL THEN 0
        WHEN present AND NOT held AND process_count IS NOT NULL AND NOT memory_above_floor THEN 1
        WHEN present THEN 3
        WHEN held AND present IS NOT NULL THEN 2
        WHEN held AND busiest_e4 IS NOT NULL THEN 3
        WHEN present IS NULL THEN 0
        WHEN memory_above_floor THEN 7
        ELSE 1
    END;

CREATE OR REPLACE MACRO gpu_state_code(
    held, process_count, memory_used_bytes, memory_total_bytes, memory_free_bytes, utilization_e4, gpu_utilization_e4,
    graphics_active_e4, sm_active_e4, engines_e4, power_mw, idle_power_mw
) AS
    gpu_state_of(
        held,
        process_is_present(process_count, memory_used_bytes, memory_total_bytes, memory_free_bytes,
            greatest(utilization_e4, gpu_utilization_e4, graphics_active_e4, sm_active_e4, engines_e4)),
        process_count,
        coalesce(memory_used_bytes > idle_memory_floor_bytes(memory_total_bytes), false),
        greatest(utilization_e4, gpu_utilization_e4, graphics_active_e4, sm_active_e4, engines_e4),
        utilization_e4, engines_e4, gpu_utilization_e4, power_mw, idle_power_mw
    );

CREATE OR REPLACE MACRO gpu_state(
    held, process_count, memory_used_bytes, memory_total_bytes, memory_free_bytes, utilization_e4, gpu_utilization_e4,
    graphics_active_e4, sm_active_e4, engines_e4, power_mw, idle_power_mw
) AS
    gpu_state_name(gpu_state_code(
        held, process_count, memory_used_bytes, memory_total_bytes, memory_free_bytes, utilization_e4,
        gpu_utilization_e4, graphics_active_e4, sm_active_e4, engines_e4, power_mw, idle_power_mw
    ));
