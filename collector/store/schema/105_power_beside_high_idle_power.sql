-- A board whose limit is under twice its idle power, or little above it, is at work near its limit, too
-- (docs/decisions/0152). Stretches that are rolled up keep their states.

-- Whether a board draws more than any idle one does, though nothing of it was active (analytics/thresholds.py says why
-- these numbers): twice its own idle power, and 40% of its limit, at least 150 W, or 75% of it; 300 W where its limit is
-- not known. Where that is less, 75% of the way from its idle power to its limit suffice, beyond 1.1 times its idle
-- power. busiest_e4 is that of the whole board. Never of a MIG instance: what is told of it is its board's power.
CREATE OR REPLACE MACRO power_denies_idle(busiest_e4, power_mw, idle_power_mw, power_limit_mw, mig_profile) AS
    mig_profile IS NULL AND busiest_e4 <= 100
    AND NOT coalesce(power_mw <= 1.1 * idle_power_mw, false)
    AND power_mw >= CASE
        WHEN power_limit_mw > 0 THEN least(
            greatest(2 * idle_power_mw, least(greatest(0.4 * power_limit_mw, 150000), 0.75 * power_limit_mw)),
            idle_power_mw + 0.75 * (power_limit_mw - idle_power_mw))
        ELSE greatest(2 * idle_power_mw, 300000)
    END;
