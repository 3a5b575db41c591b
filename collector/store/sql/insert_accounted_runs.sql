-- Adds those runs of the Arrow table "incoming" (the columns of accounted_runs) that are not stored. The number of them.
INSERT INTO accounted_runs BY NAME
SELECT incoming.* FROM incoming
WHERE NOT EXISTS (
    SELECT 1 FROM accounted_runs AS stored
    WHERE stored.number = incoming.number AND stored.submitted_at = incoming.submitted_at
        AND stored.started_at IS NOT DISTINCT FROM incoming.started_at
        AND stored.cluster = incoming.cluster AND stored.manager = incoming.manager)
QUALIFY row_number() OVER (PARTITION BY manager, cluster, number, submitted_at, started_at ORDER BY ended_at DESC) = 1;
