-- Counters that contradict each other are doubted in two more ways: kernels that ran nearly all the time beside SMs of
-- which nothing was active, and power that no idle board draws beside no activity. What was not measured is neither 0
-- nor 1 (docs/decisions/0076). Stretches that are rolled up keep their states.

-- What the busiest part of a GPU did: its compute, by whatever tells of it, or a video engine that does more than noise
-- (1%). NULL: not known. A video engine that does nothing says nothing of compute.
CREATE OR REPLACE MACRO busiest_of(utilization_e4, gpu_utilization_e4, graphics_active_e4, sm_active_e4, engines_e4) AS
    greatest(utilization_e4, gpu_utilization_e4, graphics_active_e4, sm_active_e4,
        CASE WHEN engines_e4 > 100 THEN engines_e4 END);

-- Whether a board draws more than any idle one does, though nothing of it was active (analytics/thresholds.py says why
-- these numbers): twice its own idle power, and 40% of its limit, at least 150 W; 300 W where its limit is not known.
-- busiest_e4 is that of the whole board. Never of a MIG instance: the power that is told of it is its board's.
CREATE OR REPLACE MACRO power_denies_idle(busiest_e4, power_mw, idle_power_mw, power_limit_mw, mig_profile) AS
    mig_profile IS NULL AND busiest_e4 <= 100
    AND power_mw >= greatest(
        2 * idle_power_mw, CASE WHEN power_limit_mw > 0 THEN greatest(0.4 * power_limit_mw, 150000) ELSE 300000 END);

-- 0 unknown, 1 free, 2 allocated-empty, 3 held-idle, 4 low-saturation, 5 moderate, 6 good, 7 suspect.
-- As before, and: denies_idle is what power_denies_idle says of the whole board, whoever of several holders is looked at.
CREATE OR REPLACE MACRO gpu_state_of(
    held, present, process_count, memory_above_floor, busiest_e4, utilization_e4, engines_e4, gpu_utilization_e4,
    power_mw, idle_power_mw, denies_idle
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
            idle_power_mw, power_limit_mw, mig_profile)
    );

CREATE OR REPLACE MACRO gpu_state(
    held, process_count, memory_used_bytes, memory_total_bytes, memory_free_bytes, utilization_e4, gpu_utilization_e4,
    graphics_active_e4, sm_active_e4, engines_e4, power_mw, idle_power_mw, power_limit_mw, mig_profile
) AS
    gpu_state_name(gpu_state_code(
        held, process_count, memory_used_bytes, memory_total_bytes, memory_free_bytes, utilization_e4,
        gpu_utilization_e4, graphics_active_e4, sm_active_e4, engines_e4, power_mw, idle_power_mw, power_limit_mw,
        mig_profile
    ));

-- As before, with those two.
CREATE OR REPLACE MACRO gpus_at_newest_tick(only_node, only_project, only_user, only_model) AS TABLE
WITH newest AS (
    SELECT max(ts) AS as_of, coalesce((SELECT max(ts) FROM newest_tick), max(ts)) AS ticked_at FROM latest
), held AS (
    SELECT
        a.gpu_id, string_agg(DISTINCT h.user_name, ', ' ORDER BY h.user_name) AS user_name,
        string_agg(DISTINCT h.project, ', ' ORDER BY h.project) AS project,
        string_agg(DISTINCT h.job, ', ' ORDER BY h.job) AS job,
        string_agg(DISTINCT h.job_name, ', ' ORDER BY h.job_name) AS job_name,
        string_agg(DISTINCT h.framework, ', ' ORDER BY h.framework) AS framework,
        bool_or(only_user IS NULL OR h.user_name = only_user) AS of_user,
        bool_or(only_project IS NULL OR h.project = only_project) AS of_project
    FROM allocations AS a JOIN holders AS h USING (holder_id)
    LEFT JOIN latest AS l USING (gpu_id)
    WHERE a.to_ts IS NULL OR a.to_ts >= (SELECT as_of FROM newest)
        OR (a.to_ts >= l.ts AND a.to_ts <= l.ts + to_milliseconds(l.width_ms))
    GROUP BY a.gpu_id
), out_of_service AS (
    SELECT gpu_id, max(state) AS state, max(reason) AS reason, min(from_ts) AS from_ts FROM withheld WHERE to_ts IS NULL GROUP BY gpu_id
), states AS (
    SELECT
        g.gpu_id, g.uuid, g.node, g.gpu_index, g.model, g.mig_profile, g.share_of_device, g.memory_total_bytes,
        h.gpu_id IS NOT NULL AS is_held, h.user_name, h.project, h.job, h.job_name, h.framework,
        l.* EXCLUDE (gpu_id), n.as_of, o.state AS withheld, o.reason AS withheld_reason, o.from_ts AS withheld_from,
        CASE
            WHEN l.ts IS NULL OR l.ts < n.as_of - to_milliseconds(2 * greatest(l.width_ms, 10000))
                OR l.ts < n.ticked_at - to_milliseconds(3 * greatest(l.width_ms, 10000)) THEN 'unknown'
            ELSE gpu_state(
                h.gpu_id IS NOT NULL, l.process_count, l.memory_used_bytes, g.memory_total_bytes, g.memory_free_bytes,
                l.utilization_e4, l.gpu_utilization_e4, l.graphics_active_e4, l.sm_active_e4, l.engines_e4, l.power_mw,
                g.idle_power_mw, g.power_limit_mw, g.mig_profile)
        END AS state
    FROM gpus AS g
    CROSS JOIN newest AS n
    LEFT JOIN latest AS l USING (gpu_id)
    LEFT JOIN held AS h ON h.gpu_id = g.gpu_id
    LEFT JOIN out_of_service AS o ON o.gpu_id = g.gpu_id AND h.gpu_id IS NULL
    WHERE g.installed_to IS NULL
        AND (only_node IS NULL OR g.node = only_node) AND (only_model IS NULL OR g.model = only_model)
        AND (only_user IS NULL OR h.of_user) AND (only_project IS NULL OR h.of_project)
)
SELECT * REPLACE (
    CASE
        WHEN withheld = 'unasked' AND state = 'free' THEN 'unknown'
        WHEN withheld <> 'unasked' AND state IN ('free', 'unknown') THEN withheld
        ELSE state
    END AS state)
FROM states;

-- A part of a whole, at most all of it. NULL: nothing was measured (least alone leaves a NULL out and would say all).
CREATE OR REPLACE MACRO ratio_of(part, whole) AS
    CASE WHEN whole > 0 THEN least(1.0, part / whole) END;

-- As before, and never more than all: of several who share a GPU one may use more of it than the share that it was given,
-- and its time is the ledger's, so that its use came out as some hundred percent; and
-- NULL where nothing was measured.
CREATE OR REPLACE MACRO sum_ratio(part_ms, whole_ms, share) AS
    ratio_of(sum(part_ms * share), sum(whole_ms * share));
