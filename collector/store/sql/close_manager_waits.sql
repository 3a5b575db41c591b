-- Ends the open intervals of the runs in the Arrow table "incoming" (manager, cluster, number, submitted_at, restarts) at
-- its to_ts.
UPDATE manager_waits SET to_ts = greatest(manager_waits.from_ts, incoming.to_ts)
FROM incoming
WHERE manager_waits.to_ts IS NULL
    AND manager_waits.number = incoming.number AND manager_waits.submitted_at = incoming.submitted_at
    AND manager_waits.restarts = incoming.restarts AND manager_waits.cluster = incoming.cluster
    AND manager_waits.manager = incoming.manager;
