-- What could not be judged when findings were last judged, and why: a row a GPU, holder and reason.
--
-- @param node text = NULL: only this node
-- @param project text = NULL: only GPUs that this project holds
-- @param user text = NULL: only GPUs that this user holds
-- @param model text = NULL: only GPUs of this model
-- @column uuid text: the GPU
-- @column node text: its machine
-- @column gpu_index integer: its index there
-- @column gpu_place text: what it is called there; of a MIG instance with profile and number (0/1g.10gb#7)
-- @column model text: its model
-- @column user_name text: who is starting on it
-- @column project text: for which project
-- @column job text: the job's id
-- @column job_name text: its name
-- @column verdict text: unknown, or starting
-- @column kinds text: the kinds of finding that were not judged, with commas between
-- @column reason text: why, in words
-- @column held_by text: the jobs that hold the GPU now, with commas between
-- @column as_of timestamp: when it was judged
-- @never_null uuid, node, verdict, reason, as_of
-- @null user_name, project, job: the verdict is about the GPU, whoever holds it; held_by: nobody does
WITH held AS (
    SELECT a.gpu_id, string_agg(DISTINCT h.job, ', ' ORDER BY h.job) AS held_by
    FROM allocations AS a
    JOIN holders AS h USING (holder_id)
    LEFT JOIN latest AS l USING (gpu_id)
    WHERE still_held(a.to_ts, l.ts, l.width_ms)
    GROUP BY a.gpu_id
)
SELECT
    g.uuid, g.node, g.gpu_index,
    gpu_place(g.gpu_index, g.uuid, g.parent_uuid, g.mig_profile, g.gpu_instance, g.compute_instance) AS gpu_place,
    g.model, h.user_name, h.project, h.job, h.job_name, u.verdict,
    array_to_string(u.kinds, ', ') AS kinds, u.reason, held.held_by, u.as_of
FROM unjudged AS u
JOIN gpus AS g USING (gpu_id)
LEFT JOIN holders AS h USING (holder_id)
LEFT JOIN held ON held.gpu_id = u.gpu_id
WHERE ($node IS NULL OR g.node = $node) AND ($model IS NULL OR g.model = $model)
    AND (($project IS NULL AND $user IS NULL) OR EXISTS (
        SELECT 1 FROM allocations AS a JOIN holders AS o ON o.holder_id = a.holder_id
        LEFT JOIN latest AS l ON l.gpu_id = a.gpu_id
        WHERE a.gpu_id = u.gpu_id AND still_held(a.to_ts, l.ts, l.width_ms) AND (u.holder_id IS NULL OR a.holder_id = u.holder_id)
            AND ($project IS NULL OR o.project = $project) AND ($user IS NULL OR o.user_name = $user)))
ORDER BY u.verdict DESC, g.node, g.gpu_index, g.uuid, h.job, u.reason;
