-- SMs that work a little are at work (docs/decisions/0116), and how much of the memory's traffic there was is kept.
--
-- faint_ms            of low_saturation_ms, what was at most 1% busy in its bin; 0 in what was rolled up before, where such
--                     bins are held-idle or allocated-empty
-- controller_max_e4   the busiest the memory controller was in a sample in which the GPU was over 1% busy; NULL: in none, not
--                     measured, or rolled up before
ALTER TABLE rollup_1m ADD COLUMN faint_ms INTEGER DEFAULT 0;
ALTER TABLE rollup_1h ADD COLUMN faint_ms INTEGER DEFAULT 0;
ALTER TABLE rollup_1d ADD COLUMN faint_ms INTEGER DEFAULT 0;
ALTER TABLE rollup_1m ADD COLUMN controller_max_e4 SMALLINT;
ALTER TABLE rollup_1h ADD COLUMN controller_max_e4 SMALLINT;
ALTER TABLE rollup_1d ADD COLUMN controller_max_e4 SMALLINT;

-- 0 unknown, 1 free, 2 allocated-empty, 3 held-idle, 4 low-saturation, 5 moderate, 6 good, 7 suspect.
-- As before, and: what is held is at low saturation while its SMs are at work, if less than 1% busy too, and not empty or
-- idle. The roll-up says so only of SMs that were active in a third of the bins of ten minutes; a newest sample stands for
-- itself.
CREATE OR REPLACE MACRO gpu_state_of(
    held, present, process_count, memory_above_floor, busiest_e4, utilization_e4, engines_e4, gpu_utilization_e4,
    power_mw, idle_power_mw, denies_idle, sms_at_work
) AS
    CASE
        WHEN gpu_utilization_e4 >= 9000 AND process_count = 0 THEN 7
        WHEN gpu_utilization_e4 >= 9000 AND power_mw <= 1.1 * idle_power_mw THEN 7
        WHEN gpu_utilization_e4 >= 9000 AND utilization_e4 < 1 AND coalesce(engines_e4, 0) <= 100 THEN 7
        WHEN denies_idle THEN 7
        WHEN busiest_e4 > 100 THEN
            CASE
                WHEN greatest(coalesce(utilization_e4, busiest_e4), engines_e4) < 2500 THEN 4
                WHEN greatest(coalesce(utilization_e4, busiest_e4), engines_e4) < 5000 THEN 5
                ELSE 6
            END
        WHEN held AND sms_at_work THEN 4
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
    graphics_active_e4, sm_active_e4, engines_e4, power_mw, idle_power_mw, power_limit_mw, mig_profile
) AS
    gpu_state_of(
        held,
        process_is_present(process_count, memory_used_bytes, memory_total_bytes, memory_free_bytes,
            busiest_of(utilization_e4, gpu_utilization_e4, graphics_active_e4, sm_active_e4, engines_e4)),
        process_count,
        coalesce(memory_used_bytes > idle_memory_floor_bytes(memory_total_bytes), false),
        busiest_of(utilization_e4, gpu_utilization_e4, graphics_active_e4, sm_active_e4, engines_e4),
        utilization_e4, engines_e4, gpu_utilization_e4, power_mw, idle_power_mw,
        power_denies_idle(
            busiest_of(utilization_e4, gpu_utilization_e4, graphics_active_e4, sm_active_e4, engines_e4), power_mw,
            idle_power_mw, power_limit_mw, mig_profile),
        sm_active_e4 >= 1
    );
