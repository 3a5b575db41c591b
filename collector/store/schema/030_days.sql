-- Days, made of hours: what long windows read instead of 24 times as many rows. UTC days, a row a (day, GPU, holder).
--
-- rollup_1d     as rollup_1h; goes with the hours it is made of, so that every day can be made anew from them
-- watermarks    rollup_1d: how far the days are complete, never further than the hours; no row: none are, and hours
--               are read. A store that has hours gets their days as its next minutes close (collector/store/rollups.py).
--
-- The ledger's macros are made again below, with days_to beside hours_to; what they answer is the same to the
-- millisecond. Steps sum what the rows add up to once, and the free time is what is left of it: a query that needs
-- few of the states then has few sums to keep.
CREATE TABLE rollup_1d AS SELECT * FROM rollup_1h LIMIT 0;

-- Currencies differ when the least is not the greatest: counting distinct ones is dear to plan.
CREATE OR REPLACE MACRO one_currency(currency) AS CASE WHEN min(currency) = max(currency) THEN min(currency) END;
CREATE OR REPLACE MACRO sum_money(ms, share, per_gpu_hour, currency) AS
    CASE WHEN count(*) FILTER (WHERE ms > 0 AND per_gpu_hour IS NULL) = 0 AND min(currency) = max(currency)
        THEN sum(ms * share * coalesce(per_gpu_hour, 0)) / 3600000.0 END;

-- Bounds of a window of whole minutes: the whole hours and the whole UTC days in it, as far as they are complete.
CREATE OR REPLACE MACRO hours_from(window_from) AS time_bucket(INTERVAL 1 HOUR, window_from + INTERVAL 59 MINUTE);
CREATE OR REPLACE MACRO hours_until(window_to, hours_to) AS least(hours_to, time_bucket(INTERVAL 1 HOUR, window_to));
CREATE OR REPLACE MACRO days_from(window_from) AS time_bucket(INTERVAL 1 DAY, window_from + INTERVAL 1439 MINUTE);
CREATE OR REPLACE MACRO days_until(window_to, hours_to, days_to) AS
    least(days_to, hours_to, time_bucket(INTERVAL 1 DAY, window_to));

-- Rolled-up rows of a window: days that are complete and lie wholly inside, hours before and after them, minutes for
-- the rest. How far the levels are complete comes as arguments, because bounds that are known when a query is planned
-- let it skip what lies outside.
CREATE OR REPLACE MACRO usage(window_from, window_to, hours_to, days_to) AS TABLE
SELECT * FROM rollup_1d
WHERE ts >= days_from(window_from) AND ts < days_until(window_to, hours_to, days_to)
UNION ALL
SELECT * FROM rollup_1h
WHERE ts >= hours_from(window_from) AND ts < least(hours_until(window_to, hours_to), days_from(window_from))
UNION ALL
SELECT * FROM rollup_1h
WHERE ts >= greatest(days_from(window_from), days_until(window_to, hours_to, days_to))
    AND ts < hours_until(window_to, hours_to)
UNION ALL
SELECT * FROM rollup_1m
WHERE ts >= window_from AND ts < least(window_to, hours_from(window_from))
UNION ALL
SELECT * FROM rollup_1m
WHERE ts >= greatest(hours_from(window_from), hours_until(window_to, hours_to)) AND ts < window_to;

-- Of these, what a project or user held; everything when both are NULL. Two halves, of which one is planned away,
-- because joining the holders to no purpose costs as much as reading the rows.
CREATE OR REPLACE MACRO usage_of(window_from, window_to, hours_to, days_to, only_project, only_user) AS TABLE
SELECT * FROM usage(window_from, window_to, hours_to, days_to) WHERE only_project IS NULL AND only_user IS NULL
UNION ALL
SELECT * FROM usage(window_from, window_to, hours_to, days_to)
WHERE (only_project IS NOT NULL OR only_user IS NOT NULL) AND holder_id IN (
    SELECT holder_id FROM holders
    WHERE (only_project IS NULL OR project = only_project) AND (only_user IS NULL OR user_name = only_user));

-- Whole days will do for steps of whole days.
CREATE OR REPLACE MACRO days_for(step_s, days_to) AS
    CASE WHEN step_s % 86400 = 0 THEN days_to ELSE TIMESTAMP '1970-01-01' END;

-- A row a GPU. With a project or user: what they held of it, and no missing time, which nobody is known to have held.
CREATE OR REPLACE MACRO gpu_rows(
    window_from, window_to, hours_to, days_to, only_node, only_project, only_user, only_model
) AS TABLE
WITH rolled AS (
    SELECT
        gpu_id, sum(free_ms)::BIGINT AS free_ms, sum(allocated_empty_ms)::BIGINT AS allocated_empty_ms,
        sum(held_idle_ms)::BIGINT AS held_idle_ms, sum(low_saturation_ms)::BIGINT AS low_saturation_ms,
        sum(moderate_ms)::BIGINT AS moderate_ms, sum(good_ms)::BIGINT AS good_ms,
        sum(suspect_ms)::BIGINT AS suspect_ms, sum(unknown_ms)::BIGINT AS unknown_ms,
        sum(held_ms)::BIGINT AS held_ms, sum(measured_ms)::BIGINT AS measured_ms, sum(used_ms)::BIGINT AS used_ms
    FROM usage_of(window_from, window_to, hours_to, days_to, only_project, only_user)
    GROUP BY gpu_id
), totals AS (
    SELECT
        g.gpu_id, g.uuid, g.node, g.gpu_index, g.model, g.share_of_device, p.per_gpu_hour, p.currency,
        r.* EXCLUDE (gpu_id), coalesce(free_ms + allocated_empty_ms + held_idle_ms + low_saturation_ms + moderate_ms
            + good_ms + suspect_ms + unknown_ms, 0) AS rolled_ms,
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
    coalesce(unknown_ms, 0) + missing_ms AS unknown_ms, coalesce(held_ms, 0) AS held_ms,
    coalesce(measured_ms, 0) AS measured_ms, coalesce(used_ms, 0) AS used_ms,
    coalesce(allocated_empty_ms, 0) + coalesce(held_idle_ms, 0) AS wasted_ms
FROM totals
WHERE rolled_ms + missing_ms > 0;

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
        sum(suspect_ms)::BIGINT AS suspect_ms, sum(unknown_ms)::BIGINT AS unknown_ms,
        sum(held_ms)::BIGINT AS held_ms, sum(measured_ms)::BIGINT AS measured_ms, sum(used_ms)::BIGINT AS used_ms,
        max(memory_used_max_bytes) AS memory_used_max_bytes
    FROM usage(window_from, window_to, hours_to, days_to) JOIN chosen USING (gpu_id)
    GROUP BY holder_id, kind_id
), totals AS (
    SELECT *, free_ms + allocated_empty_ms + held_idle_ms + low_saturation_ms + moderate_ms + good_ms
        + suspect_ms + unknown_ms AS total_ms
    FROM rolled
), missing AS (
    SELECT kind_id, sum(installed_ms)::BIGINT AS missing_ms FROM chosen GROUP BY ALL
    UNION ALL
    SELECT kind_id, -sum(total_ms)::BIGINT FROM totals GROUP BY ALL
), complete AS (
    SELECT * FROM totals
    UNION ALL BY NAME
    SELECT NULL::INTEGER AS holder_id, kind_id, 0 AS free_ms, 0 AS allocated_empty_ms,
        0 AS held_idle_ms, 0 AS low_saturation_ms, 0 AS moderate_ms, 0 AS good_ms, 0 AS suspect_ms,
        sum(missing_ms)::BIGINT AS unknown_ms, 0 AS held_ms, 0 AS measured_ms, 0 AS used_ms,
        sum(missing_ms)::BIGINT AS total_ms
    FROM missing GROUP BY ALL HAVING sum(missing_ms) > 0
)
SELECT
    c.* EXCLUDE (kind_id), k.* EXCLUDE (kind_id), c.allocated_empty_ms + c.held_idle_ms AS wasted_ms,
    h.job, h.job_name, h.user_name, h.project, h.framework, h.kind, h.command
FROM complete AS c
JOIN kinds AS k USING (kind_id)
LEFT JOIN holders AS h USING (holder_id)
WHERE (only_project IS NULL OR h.project = only_project) AND (only_user IS NULL OR h.user_name = only_user);

-- Hours and money for any key made of a GPU's columns.
CREATE OR REPLACE MACRO ledger_by_hardware(
    key_column, window_from, window_to, hours_to, days_to, only_node, only_project, only_user, only_model
) AS TABLE
SELECT
    key_column AS key, sum_hours(total_ms, share_of_device) AS gpu_hours,
    sum_hours(held_ms, share_of_device) AS held_gpu_hours, sum_hours(used_ms, share_of_device) AS used_gpu_hours,
    sum_hours(free_ms, share_of_device) AS free_gpu_hours,
    sum_hours(allocated_empty_ms, share_of_device) AS allocated_empty_gpu_hours,
    sum_hours(held_idle_ms, share_of_device) AS held_idle_gpu_hours,
    sum_hours(low_saturation_ms, share_of_device) AS low_saturation_gpu_hours,
    sum_hours(moderate_ms, share_of_device) AS moderate_gpu_hours, sum_hours(good_ms, share_of_device) AS good_gpu_hours,
    sum_hours(suspect_ms, share_of_device) AS suspect_gpu_hours, sum_hours(unknown_ms, share_of_device) AS unknown_gpu_hours,
    sum_ratio(used_ms, measured_ms, share_of_device) AS utilization_ratio,
    sum_hours(wasted_ms, share_of_device) AS wasted_gpu_hours,
    sum_money(total_ms, share_of_device, per_gpu_hour, currency) AS cost,
    sum_money(wasted_ms, share_of_device, per_gpu_hour, currency) AS wasted_cost,
    one_currency(currency) AS currency
FROM gpu_rows(window_from, window_to, hours_to, days_to, only_node, only_project, only_user, only_model)
GROUP BY key_column;

-- Hours and money for any key made of a holder's columns.
CREATE OR REPLACE MACRO ledger_by_holder(
    key_column, window_from, window_to, hours_to, days_to, only_node, only_project, only_user, only_model
) AS TABLE
SELECT
    key_column AS key, sum_hours(total_ms, share_of_device) AS gpu_hours,
    sum_hours(held_ms, share_of_device) AS held_gpu_hours, sum_hours(used_ms, share_of_device) AS used_gpu_hours,
    sum_hours(free_ms, share_of_device) AS free_gpu_hours,
    sum_hours(allocated_empty_ms, share_of_device) AS allocated_empty_gpu_hours,
    sum_hours(held_idle_ms, share_of_device) AS held_idle_gpu_hours,
    sum_hours(low_saturation_ms, share_of_device) AS low_saturation_gpu_hours,
    sum_hours(moderate_ms, share_of_device) AS moderate_gpu_hours, sum_hours(good_ms, share_of_device) AS good_gpu_hours,
    sum_hours(suspect_ms, share_of_device) AS suspect_gpu_hours, sum_hours(unknown_ms, share_of_device) AS unknown_gpu_hours,
    sum_ratio(used_ms, measured_ms, share_of_device) AS utilization_ratio,
    sum_hours(wasted_ms, share_of_device) AS wasted_gpu_hours,
    sum_money(total_ms, share_of_device, per_gpu_hour, currency) AS cost,
    sum_money(wasted_ms, share_of_device, per_gpu_hour, currency) AS wasted_cost,
    one_currency(currency) AS currency
FROM holder_rows(window_from, window_to, hours_to, days_to, only_node, only_project, only_user, only_model)
GROUP BY key_column;

-- The ledger step by step, a row a step and kind of GPU (share of a device, price). Rows are summed by their own time
-- first, which is cheaper than finding each one's step. GPUs that were there all the time are one spell, whatever
-- their dates.
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
            + suspect_ms + unknown_ms)::BIGINT AS rolled_ms,
        sum(allocated_empty_ms)::BIGINT AS allocated_empty_ms, sum(held_idle_ms)::BIGINT AS held_idle_ms,
        sum(low_saturation_ms)::BIGINT AS low_saturation_ms, sum(moderate_ms)::BIGINT AS moderate_ms,
        sum(good_ms)::BIGINT AS good_ms, sum(suspect_ms)::BIGINT AS suspect_ms, sum(unknown_ms)::BIGINT AS unknown_ms,
        sum(held_ms)::BIGINT AS held_ms, sum(measured_ms)::BIGINT AS measured_ms, sum(used_ms)::BIGINT AS used_ms
    FROM usage_of(window_from, window_to, hours_for(step_s, hours_to), days_for(step_s, days_to),
        only_project, only_user) AS u
    JOIN chosen USING (gpu_id)
    GROUP BY u.ts, kind_id
), rolled AS (
    SELECT
        step_start(ts, window_from, step_s) AS ts, kind_id, sum(rolled_ms)::BIGINT AS rolled_ms,
        sum(allocated_empty_ms)::BIGINT AS allocated_empty_ms, sum(held_idle_ms)::BIGINT AS held_idle_ms,
        sum(low_saturation_ms)::BIGINT AS low_saturation_ms, sum(moderate_ms)::BIGINT AS moderate_ms,
        sum(good_ms)::BIGINT AS good_ms, sum(suspect_ms)::BIGINT AS suspect_ms, sum(unknown_ms)::BIGINT AS unknown_ms,
        sum(held_ms)::BIGINT AS held_ms, sum(measured_ms)::BIGINT AS measured_ms, sum(used_ms)::BIGINT AS used_ms
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
        - unknown_ms, 0) AS free_ms,
    coalesce(allocated_empty_ms, 0) AS allocated_empty_ms,
    coalesce(held_idle_ms, 0) AS held_idle_ms, coalesce(low_saturation_ms, 0) AS low_saturation_ms,
    coalesce(moderate_ms, 0) AS moderate_ms, coalesce(good_ms, 0) AS good_ms, coalesce(suspect_ms, 0) AS suspect_ms,
    coalesce(unknown_ms, 0) + missing_ms AS unknown_ms, coalesce(held_ms, 0) AS held_ms,
    coalesce(measured_ms, 0) AS measured_ms, coalesce(used_ms, 0) AS used_ms,
    coalesce(allocated_empty_ms, 0) + coalesce(held_idle_ms, 0) AS wasted_ms
FROM completed;

-- The same columns as ledger_by, a row a step.
CREATE OR REPLACE MACRO ledger_by_step(
    window_from, window_to, hours_to, days_to, step_s, only_node, only_project, only_user, only_model
) AS TABLE
SELECT
    ts AS key, sum_hours(total_ms, share_of_device) AS gpu_hours,
    sum_hours(held_ms, share_of_device) AS held_gpu_hours, sum_hours(used_ms, share_of_device) AS used_gpu_hours,
    sum_hours(free_ms, share_of_device) AS free_gpu_hours,
    sum_hours(allocated_empty_ms, share_of_device) AS allocated_empty_gpu_hours,
    sum_hours(held_idle_ms, share_of_device) AS held_idle_gpu_hours,
    sum_hours(low_saturation_ms, share_of_device) AS low_saturation_gpu_hours,
    sum_hours(moderate_ms, share_of_device) AS moderate_gpu_hours, sum_hours(good_ms, share_of_device) AS good_gpu_hours,
    sum_hours(suspect_ms, share_of_device) AS suspect_gpu_hours, sum_hours(unknown_ms, share_of_device) AS unknown_gpu_hours,
    sum_ratio(used_ms, measured_ms, share_of_device) AS utilization_ratio,
    sum_hours(wasted_ms, share_of_device) AS wasted_gpu_hours,
    sum_money(total_ms, share_of_device, per_gpu_hour, currency) AS cost,
    sum_money(wasted_ms, share_of_device, per_gpu_hour, currency) AS wasted_cost,
    one_currency(currency) AS currency
FROM ledger_steps(window_from, window_to, hours_to, days_to, step_s, only_node, only_project, only_user, only_model)
GROUP BY ts;
