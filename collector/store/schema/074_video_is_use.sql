-- What video engines do is use (docs/decisions/0100).
--
-- used_ms      what the busiest of a GPU's parts did, times the time: its SMs, or an engine beside them
-- engines_ms   of used_ms, what engines did beyond the SMs; 0 in what was rolled up before, which has the SMs alone
ALTER TABLE rollup_1m ADD COLUMN engines_ms INTEGER DEFAULT 0;
ALTER TABLE rollup_1h ADD COLUMN engines_ms INTEGER DEFAULT 0;
ALTER TABLE rollup_1d ADD COLUMN engines_ms INTEGER DEFAULT 0;

-- A row a holder and kind of GPU (share of a device, price). Under the holder NULL stands what nobody held, and there
-- the missing time.
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
        sum(engines_ms)::BIGINT AS engines_ms, sum(energy_mj) AS energy_mj, sum(energy_ms) AS energy_ms,
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
        0 AS engines_ms, sum(missing_ms)::BIGINT AS total_ms
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
