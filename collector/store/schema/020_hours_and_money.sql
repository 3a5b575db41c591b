-- The ledger's arithmetic, kept once: installed time, steps, hours and money.
-- Window bounds are whole minutes. Milliseconds are whole numbers, so that states add up to the window exactly.

-- Bins are 30 s and belong to one state as a whole, so a GPU counts as installed from the start of its first bin.
CREATE MACRO installed_ms(window_from, window_to, installed_from, installed_to) AS
    greatest(0, epoch_ms(least(window_to, coalesce(
        time_bucket(INTERVAL 30 SECOND, installed_to + INTERVAL 29999999 MICROSECOND), window_to)))
        - epoch_ms(greatest(window_from, time_bucket(INTERVAL 30 SECOND, installed_from))));

CREATE MACRO step_start(ts, window_from, step_s) AS
    greatest(window_from, time_bucket(to_seconds(step_s), ts, TIMESTAMP '1970-01-01'));

-- What a GPU-hour of each GPU costs; NULL without a price. The model '*' prices what has no row of its own.
CREATE VIEW gpu_prices AS
SELECT
    g.gpu_id, coalesce(own.per_gpu_hour, other.per_gpu_hour) AS per_gpu_hour,
    coalesce(own.currency, other.currency) AS currency
FROM gpus AS g
LEFT JOIN prices AS own ON own.model = g.model
LEFT JOIN prices AS other ON other.model = '*';

-- Sums over ledger rows: share_of_device weighs hours; money is NULL if any hour has no price or currencies differ.
CREATE MACRO sum_hours(ms, share) AS sum(ms * share) / 3600000.0;
CREATE MACRO sum_ratio(part_ms, whole_ms, share) AS sum(part_ms * share) / nullif(sum(whole_ms * share), 0);
CREATE MACRO one_currency(currency) AS CASE WHEN count(DISTINCT currency) = 1 THEN min(currency) END;
CREATE MACRO sum_money(ms, share, per_gpu_hour, currency) AS
    CASE WHEN count(*) FILTER (WHERE ms > 0 AND per_gpu_hour IS NULL) = 0 AND count(DISTINCT currency) = 1
        THEN sum(ms * share * coalesce(per_gpu_hour, 0)) / 3600000.0 END;

CREATE MACRO main_state(free_ms, allocated_empty_ms, held_idle_ms, low_ms, moderate_ms, good_ms, suspect_ms, unknown_ms) AS
    CASE greatest(free_ms, allocated_empty_ms, held_idle_ms, low_ms, moderate_ms, good_ms, suspect_ms, unknown_ms)
        WHEN good_ms THEN 'good' WHEN moderate_ms THEN 'moderate' WHEN low_ms THEN 'low-saturation'
        WHEN held_idle_ms THEN 'held-idle' WHEN allocated_empty_ms THEN 'allocated-empty'
        WHEN free_ms THEN 'free' WHEN suspect_ms THEN 'suspect' ELSE 'unknown' END;
