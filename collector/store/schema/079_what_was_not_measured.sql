-- What was not measured is neither 0 nor 1 (docs/decisions/0076). Stretches that are rolled up keep their states.

-- What the busiest part of a GPU did: its compute, by whatever tells of it, or a video engine that does more than noise
-- (1%). NULL: not known. A video engine that does nothing says nothing of compute.
CREATE OR REPLACE MACRO busiest_of(utilization_e4, gpu_utilization_e4, graphics_active_e4, sm_active_e4, engines_e4) AS
    greatest(utilization_e4, gpu_utilization_e4, graphics_active_e4, sm_active_e4,
        CASE WHEN engines_e4 > 100 THEN engines_e4 END);

-- As before, with busiest_of.
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
            idle_power_mw, power_limit_mw, mig_profile)
    );

-- A part of a whole, at most all of it. NULL: nothing was measured (least alone leaves a NULL out and would say all).
CREATE OR REPLACE MACRO ratio_of(part, whole) AS
    CASE WHEN whole > 0 THEN least(1.0, part / whole) END;

-- As before, and NULL where nothing was measured: that was all.
CREATE OR REPLACE MACRO sum_ratio(part_ms, whole_ms, share) AS
    ratio_of(sum(part_ms * share), sum(whole_ms * share));
