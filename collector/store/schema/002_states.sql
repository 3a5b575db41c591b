-- What a GPU's numbers mean, in one place: the roll-ups and the "now" screens ask the same macros.
-- Ratios are ten-thousandths (_e4), as they are stored; NULL is "not measured".

-- Memory above this is somebody's: max(1 GiB, 1% of the GPU).
CREATE MACRO idle_memory_floor_bytes(memory_total_bytes) AS
    greatest(1073741824, coalesce(memory_total_bytes, 0) // 100);

-- Whether a process is there: counted, or, when nobody counted, betrayed by its memory. NULL: no way to tell.
CREATE MACRO process_is_present(process_count, memory_used_bytes, memory_total_bytes) AS
    CASE
        WHEN process_count IS NOT NULL THEN process_count > 0
        ELSE memory_used_bytes > idle_memory_floor_bytes(memory_total_bytes)
    END;

-- 0 unknown, 1 free, 2 allocated-empty, 3 held-idle, 4 low-saturation, 5 moderate, 6 good, 7 suspect.
-- busiest_e4: the largest of all rungs there are; utilization_e4: the best rung.
-- A held GPU of which neither processes nor memory are known, and that does nothing, is held-idle; one
-- that nobody holds is unknown then.
CREATE MACRO gpu_state_of(
    held, present, process_count, memory_above_floor, busiest_e4, utilization_e4, gpu_utilization_e4,
    power_mw, idle_power_mw
) AS
    CASE
        WHEN gpu_utilization_e4 >= 9000 AND process_count = 0 THEN 7
        WHEN gpu_utilization_e4 >= 9000 AND power_mw <= 1.1 * idle_power_mw THEN 7
        WHEN busiest_e4 > 100 THEN
            CASE
                WHEN coalesce(utilization_e4, busiest_e4) < 2500 THEN 4
                WHEN coalesce(utilization_e4, busiest_e4) < 5000 THEN 5
                ELSE 6
            END
        WHEN present AND busiest_e4 IS NULL THEN 0
        WHEN present THEN 3
        WHEN held AND present IS NOT NULL THEN 2
        WHEN held AND busiest_e4 IS NOT NULL THEN 3
        WHEN present IS NULL THEN 0
        WHEN memory_above_floor THEN 7
        ELSE 1
    END;

CREATE MACRO gpu_state_code(
    held, process_count, memory_used_bytes, memory_total_bytes, utilization_e4, gpu_utilization_e4,
    graphics_active_e4, sm_active_e4, power_mw, idle_power_mw
) AS
    gpu_state_of(
        held,
        process_is_present(process_count, memory_used_bytes, memory_total_bytes),
        process_count,
        coalesce(memory_used_bytes > idle_memory_floor_bytes(memory_total_bytes), false),
        greatest(utilization_e4, gpu_utilization_e4, graphics_active_e4, sm_active_e4),
        utilization_e4, gpu_utilization_e4, power_mw, idle_power_mw
    );

CREATE MACRO gpu_state_name(code) AS
    ['unknown', 'free', 'allocated-empty', 'held-idle', 'low-saturation', 'moderate', 'good', 'suspect'][code + 1];

-- The state's name, for what `latest` and `gpus` hold. Whether the sample is too old to count is the caller's to say.
CREATE MACRO gpu_state(
    held, process_count, memory_used_bytes, memory_total_bytes, utilization_e4, gpu_utilization_e4,
    graphics_active_e4, sm_active_e4, power_mw, idle_power_mw
) AS
    gpu_state_name(gpu_state_code(
        held, process_count, memory_used_bytes, memory_total_bytes, utilization_e4, gpu_utilization_e4,
        graphics_active_e4, sm_active_e4, power_mw, idle_power_mw
    ));

-- The part of a whole amount that lies between two fractions of it. Neighbouring parts share a boundary, so
-- the parts of 0..1 add up to the amount exactly.
CREATE MACRO part_of(amount, lower_fraction, upper_fraction) AS
    CAST(round(amount * upper_fraction) - round(amount * lower_fraction) AS BIGINT);

-- Days that left the hot table for a Parquet file; path is relative to the data folder.
CREATE TABLE sealed (
    day DATE NOT NULL,
    path VARCHAR PRIMARY KEY,
    samples BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    widest_ms INTEGER NOT NULL,
    sealed_at TIMESTAMP NOT NULL
);

CREATE VIEW samples_all AS SELECT * FROM samples;
