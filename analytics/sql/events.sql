-- What happened to GPUs: XIDs, falls off the bus, returns, counter resets; newest first.
--
-- @param from_ts minute: start of the window
-- @param to_ts minute: end of the window, exclusive
-- @param node text = NULL: only this node
-- @param project text = NULL: only what this project held
-- @param user text = NULL: only what this user held
-- @param model text = NULL: only GPUs of this model
-- @column ts timestamp: when
-- @column uuid text: to which GPU
-- @column node text: on which machine
-- @column gpu_index integer: its index there
-- @column gpu_place text: what it is called there; of a MIG instance with profile and number (0/1g.10gb#7)
-- @column kind text: what happened
-- @column detail text: in the driver's words
-- @null detail: nothing more is known
SELECT
    e.ts, g.uuid, g.node, g.gpu_index,
    gpu_place(g.gpu_index, g.uuid, g.parent_uuid, g.mig_profile, g.gpu_instance, g.compute_instance) AS gpu_place,
    e.kind, e.detail
FROM events AS e
JOIN gpus AS g USING (gpu_id)
WHERE e.ts >= $from_ts AND e.ts < $to_ts
    AND ($node IS NULL OR g.node = $node) AND ($model IS NULL OR g.model = $model)
    AND (($project IS NULL AND $user IS NULL) OR EXISTS (
        SELECT 1 FROM allocations AS a JOIN holders AS h USING (holder_id)
        WHERE a.gpu_id = e.gpu_id AND a.from_ts <= e.ts AND (a.to_ts IS NULL OR a.to_ts > e.ts)
            AND ($project IS NULL OR h.project = $project) AND ($user IS NULL OR h.user_name = $user)))
ORDER BY e.ts DESC, g.node, g.gpu_index, e.kind;
