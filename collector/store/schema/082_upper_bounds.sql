-- How much of what was used rests on GPU utilization alone, the time in which any kernel ran: less may have been used
-- (docs/decisions/0120). A row of the roll-ups counts by the lowest measure that went into it (rung 1): a day with a minute
-- of it is of it.
--
-- As before, with bound_used_ms, and bound_used_gpu_hours in the ledger.
CREATE OR REPLACE MACRO gpu_rows(
    window_from, window_to, hours_to, days_to, only_node, only_project, only_user, only_model
) AS TABLE
WITH rolled AS (
    SELECT
        gpu_id, sum(free_ms)::BIGINT AS free_ms, sum(allocated_empty_ms)::BIGINT AS allocated_empty_ms,
        sum(held_idle_ms)::BIGINT AS held_idle_ms, sum(low_saturation_ms)::BIGINT AS low_saturation_ms,
        sum(moderate_ms)::BIGINT AS moderate_ms, sum(good_ms)::BIGINT AS good_ms,
        sum(suspect_ms)::BIGINT AS suspect_ms, sum(withheld_ms)::BIGINT AS withheld_ms,
        sum(unknown_ms)::BIGINT AS unknown_ms,
        sum(held_ms)::BIGINT AS held_ms, sum(measured_ms)::BIGINT AS measured_ms, sum(used_ms)::BIGINT AS used_ms,
        (sum(used_ms) FILTER (rung = 1))::BIGINT AS bound_used_ms,
        sum(energy_mj) AS energy_mj, sum(energy_ms) AS energy_ms,
        sum(coalesce(allocated_empty_energy_mj, 0) + coalesce(held_idle_energy_mj, 0)) AS wasted_energy_mj,
        sum(wasted_energy_ms) AS wasted_energy_ms
    FROM usage_of(window_from, window_to, hours_to, days_to, only_project, only_user)
    GROUP BY gpu_id
), totals AS (
    SELECT
        g.gpu_id, g.uuid, g.node, g.gpu_index, g.model, g.share_of_device, p.per_gpu_hour, p.currency,
        r.* EXCLUDE (gpu_id), coalesce(free_ms + allocated_empty_ms + held_idle_ms + low_saturation_ms + moderate_ms
            + good_ms + suspect_ms + withheld_ms + unknown_ms, 0) AS rolled_ms,
        CASE WHEN only_project IS NULL AND only_user IS NULL
            THEN installed_ms(window_from, window_to, installed_from, installed_to) - rolled_ms ELSE 0 END AS missing_ms
    FROM gpus AS g
    JOIN gpu_prices AS p USING (gpu_id)
    LEFT JOIN rolled AS r ON r.gpu_id = g.gpu_id
    WHERE (only_node IS NULL OR g.node = only_node) AND (only_model IS NULL OR g.model = only_model)
)
SELECT
    gpu_id, uuid, node, gpu_index, model, share_of_device, per_gpu_hour, currency, missing_ms,
    rolled_ms + missing_ms AS total_ms, coalesce(free_ms, 0) AS free_ms,
    coalesce(allocated_empty_ms, 0) AS allocated_empty_ms, coalesce(held_idle_ms, 0) AS held_idle_ms,
    coalesce(low_saturation_ms, 0) AS low_saturation_ms, coalesce(moderate_ms, 0) AS moderate_ms,
    coalesce(good_ms, 0) AS good_ms, coalesce(suspect_ms, 0) AS suspect_ms,
    coalesce(withheld_ms, 0) AS withheld_ms,
    coalesce(unknown_ms, 0) + missing_ms AS unknown_ms, coalesce(held_ms, 0) AS held_ms,
    coalesce(measured_ms, 0) AS measured_ms, coalesce(used_ms, 0) AS used_ms,
    coalesce(bound_used_ms, 0) AS bound_used_ms,
    energy_mj, coalesce(energy_ms, 0) AS energy_ms, wasted_energy_mj, coalesce(wasted_energy_ms, 0) AS wasted_energy_ms,
    coalesce(allocated_empty_ms, 0) + coalesce(held_idle_ms, 0) AS wasted_ms
FROM totals
WHERE rolled_ms + missing_ms > 0;

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
        coalesce(sum(used_ms) FILTER (rung = 1), 0)::BIGINT AS bound_used_ms,
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
        sum(missing_ms)::BIGINT AS unknown_ms, 0 AS held_ms, 0 AS measured_ms, 0 AS used_ms, 0 AS bound_used_ms,
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

CREATE OR REPLACE MACRO ledger_by_hardware(
    key_column, window_from, window_to, hours_to, days_to, only_node, only_project, only_user, only_model
) AS TABLE
SELECT
    key_column AS key, sum_hours(total_ms, share_of_device) AS gpu_hours,
    sum_hours(held_ms, share_of_device) AS held_gpu_hours, sum_hours(used_ms, share_of_device) AS used_gpu_hours,
    sum_hours(bound_used_ms, share_of_device) AS bound_used_gpu_hours,
    sum_hours(free_ms, share_of_device) AS free_gpu_hours,
    sum_hours(allocated_empty_ms, share_of_device) AS allocated_empty_gpu_hours,
    sum_hours(held_idle_ms, share_of_device) AS held_idle_gpu_hours,
    sum_hours(low_saturation_ms, share_of_device) AS low_saturation_gpu_hours,
    sum_hours(moderate_ms, share_of_device) AS moderate_gpu_hours,
    sum_hours(good_ms, share_of_device) AS good_gpu_hours,
    sum_hours(suspect_ms, share_of_device) AS suspect_gpu_hours,
    sum_hours(withheld_ms, share_of_device) AS withheld_gpu_hours,
    sum_hours(unknown_ms, share_of_device) AS unknown_gpu_hours,
    sum_ratio(used_ms, measured_ms, share_of_device) AS utilization_ratio,
    sum_hours(wasted_ms, share_of_device) AS wasted_gpu_hours,
    sum_money(total_ms, share_of_device, per_gpu_hour, currency) AS cost,
    sum_money(wasted_ms, share_of_device, per_gpu_hour, currency) AS wasted_cost,
    one_currency(currency) AS currency, energy_kwh(energy_mj, energy_ms, total_ms) AS energy_kwh,
    sum_ratio(energy_ms, total_ms, share_of_device) AS energy_known_ratio,
    energy_kwh(wasted_energy_mj, wasted_energy_ms, wasted_ms) AS wasted_energy_kwh,
    sum_ratio(wasted_energy_ms, wasted_ms, share_of_device) AS wasted_energy_known_ratio
FROM gpu_rows(window_from, window_to, hours_to, days_to, only_node, only_project, only_user, only_model)
GROUP BY key_column;

CREATE OR REPLACE MACRO ledger_by_holder(
    key_column, window_from, window_to, hours_to, days_to, only_node, only_project, only_user, only_model
) AS TABLE
SELECT
    key_column AS key, sum_hours(total_ms, share_of_device) AS gpu_hours,
    sum_hours(held_ms, share_of_device) AS held_gpu_hours, sum_hours(used_ms, share_of_device) AS used_gpu_hours,
    sum_hours(bound_used_ms, share_of_device) AS bound_used_gpu_hours,
    sum_hours(free_ms, share_of_device) AS free_gpu_hours,
    sum_hours(allocated_empty_ms, share_of_device) AS allocated_empty_gpu_hours,
    sum_hours(held_idle_ms, share_of_device) AS held_idle_gpu_hours,
    sum_hours(low_saturation_ms, share_of_device) AS low_saturation_gpu_hours,
    sum_hours(moderate_ms, share_of_device) AS moderate_gpu_hours,
    sum_hours(good_ms, share_of_device) AS good_gpu_hours,
    sum_hours(suspect_ms, share_of_device) AS suspect_gpu_hours,
    sum_hours(withheld_ms, share_of_device) AS withheld_gpu_hours,
    sum_hours(unknown_ms, share_of_device) AS unknown_gpu_hours,
    sum_ratio(used_ms, measured_ms, share_of_device) AS utilization_ratio,
    sum_hours(wasted_ms, share_of_device) AS wasted_gpu_hours,
    sum_money(total_ms, share_of_device, per_gpu_hour, currency) AS cost,
    sum_money(wasted_ms, share_of_device, per_gpu_hour, currency) AS wasted_cost,
    one_currency(currency) AS currency, energy_kwh(energy_mj, energy_ms, total_ms) AS energy_kwh,
    sum_ratio(energy_ms, total_ms, share_of_device) AS energy_known_ratio,
    energy_kwh(wasted_energy_mj, wasted_energy_ms, wasted_ms) AS wasted_energy_kwh,
    sum_ratio(wasted_energy_ms, wasted_ms, share_of_device) AS wasted_energy_known_ratio
FROM holder_rows(window_from, window_to, hours_to, days_to, only_node, only_project, only_user, only_model)
GROUP BY key_column, holder_id IS NULL;

CREATE OR REPLACE MACRO ledger_steps(
    window_from, window_to, hours_to, days_to, step_s, only_node, only_project, only_user, only_model
) AS TABLE
WITH chosen AS (
    SELECT g.gpu_id, g.share_of_device, p.per_gpu_hour, p.currency, g.installed_from, g.installed_to,
        dense_rank() OVER (ORDER BY g.share_of_device, p.per_gpu_hour, p.currency)::INTEGER AS kind_id
    FROM gpus AS g JOIN gpu_prices AS p USING (gpu_id)
    WHERE (only_node IS NULL OR g.node = only_node) AND (only_model IS NULL OR g.model = only_model)
), rows AS (
    SELECT
        u.ts, kind_id, sum(free_ms + allocated_empty_ms + held_idle_ms + low_saturation_ms + moderate_ms + good_ms
            + suspect_ms + withheld_ms + unknown_ms)::BIGINT AS rolled_ms,
        sum(allocated_empty_ms)::BIGINT AS allocated_empty_ms, sum(held_idle_ms)::BIGINT AS held_idle_ms,
        sum(low_saturation_ms)::BIGINT AS low_saturation_ms, sum(moderate_ms)::BIGINT AS moderate_ms,
        sum(good_ms)::BIGINT AS good_ms, sum(suspect_ms)::BIGINT AS suspect_ms, sum(withheld_ms)::BIGINT AS withheld_ms,
        sum(unknown_ms)::BIGINT AS unknown_ms,
        sum(held_ms)::BIGINT AS held_ms, sum(measured_ms)::BIGINT AS measured_ms, sum(used_ms)::BIGINT AS used_ms,
        (sum(used_ms) FILTER (rung = 1))::BIGINT AS bound_used_ms,
        sum(energy_mj) AS energy_mj, sum(energy_ms) AS energy_ms,
        sum(coalesce(allocated_empty_energy_mj, 0) + coalesce(held_idle_energy_mj, 0)) AS wasted_energy_mj,
        sum(wasted_energy_ms) AS wasted_energy_ms
    FROM usage_of(window_from, window_to, hours_for(step_s, hours_to), days_for(step_s, days_to),
        only_project, only_user) AS u
    JOIN chosen USING (gpu_id)
    GROUP BY u.ts, kind_id
), rolled AS (
    SELECT
        step_start(ts, window_from, step_s) AS ts, kind_id, sum(rolled_ms)::BIGINT AS rolled_ms,
        sum(allocated_empty_ms)::BIGINT AS allocated_empty_ms, sum(held_idle_ms)::BIGINT AS held_idle_ms,
        sum(low_saturation_ms)::BIGINT AS low_saturation_ms, sum(moderate_ms)::BIGINT AS moderate_ms,
        sum(good_ms)::BIGINT AS good_ms, sum(suspect_ms)::BIGINT AS suspect_ms, sum(withheld_ms)::BIGINT AS withheld_ms,
        sum(unknown_ms)::BIGINT AS unknown_ms,
        sum(held_ms)::BIGINT AS held_ms, sum(measured_ms)::BIGINT AS measured_ms, sum(used_ms)::BIGINT AS used_ms,
        sum(bound_used_ms)::BIGINT AS bound_used_ms,
        sum(energy_mj) AS energy_mj, sum(energy_ms) AS energy_ms,
        sum(wasted_energy_mj) AS wasted_energy_mj, sum(wasted_energy_ms) AS wasted_energy_ms
    FROM rows
    GROUP BY ALL
), spells AS (
    SELECT
        kind_id, share_of_device, per_gpu_hour, currency, greatest(installed_from, window_from) AS installed_from,
        CASE WHEN installed_to < window_to THEN installed_to END AS installed_to, count(*) AS gpus
    FROM chosen GROUP BY ALL
), installed AS (
    SELECT s.ts, s.step_ms, kind_id, share_of_device, per_gpu_hour, currency, sum(gpus * installed_ms(
        s.ts, s.ts + to_milliseconds(s.step_ms), installed_from, installed_to))::BIGINT AS installed_ms
    FROM steps(window_from, window_to, step_s) AS s, spells
    GROUP BY ALL
), totals AS (
    SELECT i.*, r.* EXCLUDE (ts, kind_id, rolled_ms), coalesce(r.rolled_ms, 0) AS rolled_ms
    FROM installed AS i
    LEFT JOIN rolled AS r USING (ts, kind_id)
), completed AS (
    SELECT *, CASE WHEN only_project IS NULL AND only_user IS NULL
        THEN greatest(0, installed_ms - rolled_ms) ELSE 0 END AS missing_ms
    FROM totals
)
SELECT
    ts, step_ms, share_of_device, per_gpu_hour, currency, missing_ms, rolled_ms + missing_ms AS total_ms,
    coalesce(rolled_ms - allocated_empty_ms - held_idle_ms - low_saturation_ms - moderate_ms - good_ms - suspect_ms
        - withheld_ms - unknown_ms, 0) AS free_ms,
    coalesce(allocated_empty_ms, 0) AS allocated_empty_ms,
    coalesce(held_idle_ms, 0) AS held_idle_ms, coalesce(low_saturation_ms, 0) AS low_saturation_ms,
    coalesce(moderate_ms, 0) AS moderate_ms, coalesce(good_ms, 0) AS good_ms, coalesce(suspect_ms, 0) AS suspect_ms,
    coalesce(withheld_ms, 0) AS withheld_ms,
    coalesce(unknown_ms, 0) + missing_ms AS unknown_ms, coalesce(held_ms, 0) AS held_ms,
    coalesce(measured_ms, 0) AS measured_ms, coalesce(used_ms, 0) AS used_ms,
    coalesce(bound_used_ms, 0) AS bound_used_ms,
    energy_mj, coalesce(energy_ms, 0) AS energy_ms, wasted_energy_mj, coalesce(wasted_energy_ms, 0) AS wasted_energy_ms,
    coalesce(allocated_empty_ms, 0) + coalesce(held_idle_ms, 0) AS wasted_ms
FROM completed;

CREATE OR REPLACE MACRO ledger_by_step(
    window_from, window_to, hours_to, days_to, step_s, only_node, only_project, only_user, only_model
) AS TABLE
SELECT
    ts AS key, sum_hours(total_ms, share_of_device) AS gpu_hours,
    sum_hours(held_ms, share_of_device) AS held_gpu_hours, sum_hours(used_ms, share_of_device) AS used_gpu_hours,
    sum_hours(bound_used_ms, share_of_device) AS bound_used_gpu_hours,
    sum_hours(free_ms, share_of_device) AS free_gpu_hours,
    sum_hours(allocated_empty_ms, share_of_device) AS allocated_empty_gpu_hours,
    sum_hours(held_idle_ms, share_of_device) AS held_idle_gpu_hours,
    sum_hours(low_saturation_ms, share_of_device) AS low_saturation_gpu_hours,
    sum_hours(moderate_ms, share_of_device) AS moderate_gpu_hours,
    sum_hours(good_ms, share_of_device) AS good_gpu_hours,
    sum_hours(suspect_ms, share_of_device) AS suspect_gpu_hours,
    sum_hours(withheld_ms, share_of_device) AS withheld_gpu_hours,
    sum_hours(unknown_ms, share_of_device) AS unknown_gpu_hours,
    sum_ratio(used_ms, measured_ms, share_of_device) AS utilization_ratio,
    sum_hours(wasted_ms, share_of_device) AS wasted_gpu_hours,
    sum_money(total_ms, share_of_device, per_gpu_hour, currency) AS cost,
    sum_money(wasted_ms, share_of_device, per_gpu_hour, currency) AS wasted_cost,
    one_currency(currency) AS currency, energy_kwh(energy_mj, energy_ms, total_ms) AS energy_kwh,
    sum_ratio(energy_ms, total_ms, share_of_device) AS energy_known_ratio,
    energy_kwh(wasted_energy_mj, wasted_energy_ms, wasted_ms) AS wasted_energy_kwh,
    sum_ratio(wasted_energy_ms, wasted_ms, share_of_device) AS wasted_energy_known_ratio
FROM ledger_steps(window_from, window_to, hours_to, days_to, step_s, only_node, only_project, only_user, only_model)
GROUP BY ts;
