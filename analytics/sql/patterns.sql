-- How each holder works, as last judged, with the numbers that made it so.
--
-- @param node text = NULL: only holders of GPUs of this node
-- @param project text = NULL: only this project's
-- @param user text = NULL: only this user's
-- @param model text = NULL: only holders of GPUs of this model
-- @column job text: the job's id
-- @column job_name text: its name
-- @column user_name text: whose
-- @column project text: for which project
-- @column framework text: the likeliest framework
-- @column kind text: analysis-bursts, low-saturation, gaps-between-runs, saturated, steady, unclear or unknown
-- @column evidence json: the numbers behind it: minutes, shares of 1, runs
-- @column reason text: why it is unknown
-- @column window_from timestamp: start of the time it was judged on
-- @column window_to timestamp: end of it
-- @column as_of timestamp: when it was judged
-- @never_null job, kind, as_of
-- @null reason: it is not unknown; else: not known
SELECT
    h.job, h.job_name, h.user_name, h.project, h.framework, p.kind, p.evidence, p.reason, p.window_from, p.window_to, p.as_of
FROM patterns AS p
JOIN holders AS h USING (holder_id)
WHERE ($project IS NULL OR h.project = $project) AND ($user IS NULL OR h.user_name = $user)
    AND (($node IS NULL AND $model IS NULL) OR EXISTS (
        SELECT 1 FROM allocations AS a JOIN gpus AS g USING (gpu_id)
        WHERE a.holder_id = p.holder_id AND a.from_ts < p.window_to AND (a.to_ts IS NULL OR a.to_ts > p.window_from)
            AND ($node IS NULL OR g.node = $node) AND ($model IS NULL OR g.model = $model)))
ORDER BY h.job;
