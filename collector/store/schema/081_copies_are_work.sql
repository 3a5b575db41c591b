-- A GPU whose memory is read or written while nothing computes is at work: copy engines, or another GPU, do that
-- (docs/decisions/0111). It is low saturation, in the roll-ups by the faint time, and no idle time.
--
-- copied_ms   of faint_ms, in which nothing computed and memory was read or written; 0 in what was rolled up before, where
--             such bins are held-idle or allocated-empty
ALTER TABLE rollup_1m ADD COLUMN copied_ms INTEGER DEFAULT 0;
ALTER TABLE rollup_1h ADD COLUMN copied_ms INTEGER DEFAULT 0;
ALTER TABLE rollup_1d ADD COLUMN copied_ms INTEGER DEFAULT 0;
ALTER TABLE latest_apart ADD COLUMN traffic_e4 SMALLINT;

CREATE OR REPLACE VIEW latest AS
FROM (
    SELECT
        ts, gpu_id, width_ms, rung, utilization_e4, gpu_utilization_e4, graphics_active_e4, sm_active_e4,
        memory_used_bytes, power_mw, temperature_c, process_count, flags,
        greatest(encoder_e4, decoder_e4, jpeg_e4, ofa_e4) AS engines_e4,
        greatest(memory_controller_e4, dram_active_e4) AS traffic_e4
    FROM samples JOIN latest_times USING (ts)
    UNION ALL BY NAME
    FROM latest_apart
)
QUALIFY row_number() OVER (PARTITION BY gpu_id ORDER BY ts DESC) = 1;

-- Whether memory was read or written, by more than noise, while nothing computed; busiest_e4 is that of the whole board,
-- as traffic_e4 is, the larger of the time in which memory was read or written and of the cycles in which it was active.
-- False: not measured.
CREATE MACRO is_copying(busiest_e4, traffic_e4) AS
    coalesce(busiest_e4 <= 100 AND traffic_e4 > 100, false);

-- As before, and: what copies is at work.
CREATE OR REPLACE MACRO gpu_state_code(
    held, process_count, memory_used_bytes, memory_total_bytes, memory_free_bytes, utilization_e4, gpu_utilization_e4,
    graphics_active_e4, sm_active_e4, engines_e4, traffic_e4, power_mw, idle_power_mw, power_limit_mw,
    mig_profile
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
        sm_active_e4 >= 1 OR is_copying(
            busiest_of(utilization_e4, gpu_utilization_e4, graphics_active_e4, sm_active_e4, engines_e4),
            traffic_e4)
    );

CREATE OR REPLACE MACRO gpu_state(
    held, process_count, memory_used_bytes, memory_total_bytes, memory_free_bytes, utilization_e4, gpu_utilization_e4,
    graphics_active_e4, sm_active_e4, engines_e4, traffic_e4, power_mw, idle_power_mw, power_limit_mw,
    mig_profile
) AS
    gpu_state_name(gpu_state_code(
        held, process_count, memory_used_bytes, memory_total_bytes, memory_free_bytes, utilization_e4,
        gpu_utilization_e4, graphics_active_e4, sm_active_e4, engines_e4, traffic_e4, power_mw, idle_power_mw,
        power_limit_mw, mig_profile
    ));

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
                l.utilization_e4, l.gpu_utilization_e4, l.graphics_active_e4, l.sm_active_e4, l.engines_e4, l.traffic_e4,
                l.power_mw, g.idle_power_mw, g.power_limit_mw, g.mig_profile)
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

-- As before, with copied_ms.
CREATE OR REPLACE MACRO holder_rows(
    window_from, window_to, hours_to, days_to, only_node, only_project, only_user, only_model
) AS TABLE
WITH chosen AS (
    SELECT g.gpu_id, g.share_of_device, p.per_gpu_hour, p.currency,
        installed_ms(window_from, window_to, g.installed_from, g.installed_to) AS installed_ms,
        dense_rank() OVER (ORDER BY g.share_of_device, p.per_gpu_hour, p.currency)::INTEGER AS kind_id
    FROM gpus AS g JOIN gpu_prices AS p USING (gpu_id)
    WHERE (only_node IS NULL OR g.node = only_node) AND (only_model IS NULL OR g.model = only_model)
), kinds AS (
    SELECT DISTINCT kind_id, share_of_device, per_gpu_hour, currency FROM chosen
), rolled AS (
    SELECT
        holder_id, kind_id, sum(free_ms)::BIGINT AS free_ms, sum(allocated_empty_ms)::BIGINT AS allocated_empty_ms,
        sum(held_idle_ms)::BIGINT AS held_idle_ms, sum(low_saturation_ms)::BIGINT AS low_saturation_ms,
        sum(moderate_ms)::BIGINT AS moderate_ms, sum(good_ms)::BIGINT AS good_ms,
        sum(suspect_ms)::BIGINT AS suspect_ms, sum(withheld_ms)::BIGINT AS withheld_ms,
        sum(unknown_ms)::BIGINT AS unknown_ms,
        sum(held_ms)::BIGINT AS held_ms, sum(measured_ms)::BIGINT AS measured_ms, sum(used_ms)::BIGINT AS used_ms,
        sum(engines_ms)::BIGINT AS engines_ms, sum(copied_ms)::BIGINT AS copied_ms, sum(energy_mj) AS energy_mj, sum(energy_ms) AS energy_ms,
        sum(coalesce(allocated_empty_energy_mj, 0) + coalesce(held_idle_energy_mj, 0)) AS wasted_energy_mj,
        sum(wasted_energy_ms) AS wasted_energy_ms,
        max(memory_used_max_bytes) AS memory_used_max_bytes
    FROM usage(window_from, window_to, hours_to, days_to) JOIN chosen USING (gpu_id)
    GROUP BY holder_id, kind_id
), totals AS (
    SELECT *, free_ms + allocated_empty_ms + held_idle_ms + low_saturation_ms + moderate_ms + good_ms
        + suspect_ms + withheld_ms + unknown_ms AS total_ms
    FROM rolled
), missing AS (
    SELECT kind_id, sum(installed_ms)::BIGINT AS missing_ms FROM chosen GROUP BY ALL
    UNION ALL
    SELECT kind_id, -sum(total_ms)::BIGINT FROM totals GROUP BY ALL
), complete AS (
    SELECT * FROM totals
    UNION ALL BY NAME
    SELECT NULL::INTEGER AS holder_id, kind_id, 0 AS free_ms, 0 AS allocated_empty_ms,
        0 AS held_idle_ms, 0 AS low_saturation_ms, 0 AS moderate_ms, 0 AS good_ms, 0 AS suspect_ms, 0 AS withheld_ms,
        sum(missing_ms)::BIGINT AS unknown_ms, 0 AS held_ms, 0 AS measured_ms, 0 AS used_ms,
        0 AS engines_ms, 0 AS copied_ms, sum(missing_ms)::BIGINT AS total_ms
    FROM missing GROUP BY ALL HAVING sum(missing_ms) > 0
)
SELECT
    c.* EXCLUDE (kind_id) REPLACE (coalesce(c.energy_ms, 0) AS energy_ms,
        coalesce(c.wasted_energy_ms, 0) AS wasted_energy_ms), k.* EXCLUDE (kind_id),
    c.allocated_empty_ms + c.held_idle_ms AS wasted_ms,
    h.job, h.job_name, h.user_name, h.project, h.framework, h.kind, h.command
FROM complete AS c
JOIN kinds AS k USING (kind_id)
LEFT JOIN holders AS h USING (holder_id)
WHERE (only_project IS NULL OR h.project = only_project) AND (only_user IS NULL OR h.user_name = only_user);
