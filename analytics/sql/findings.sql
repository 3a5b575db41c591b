-- What was found about waste and faults, the dearest first.
--
-- @param from_ts minute: start of the window
-- @param to_ts minute: end of the window, exclusive
-- @param node text = NULL: only this node
-- @param project text = NULL: only what this project held
-- @param user text = NULL: only what this user held
-- @param model text = NULL: only GPUs of this model
-- @param open flag = NULL: true: only what is still so; false: only what is over; NULL: both
-- @column finding_id integer: its number
-- @column kind text: held-idle, allocated-empty, ...
-- @column uuid text: the GPU
-- @column node text: its machine
-- @column gpu_index integer: its index there
-- @column model text: its model
-- @column user_name text: who holds it
-- @column project text: for which project
-- @column job text: the job's id
-- @column job_name text: the job's name
-- @column opened_at timestamp: first found
-- @column last_seen_at timestamp: last found
-- @column closed_at timestamp: over since
-- @column window_from timestamp: start of the time it was judged on
-- @column window_to timestamp: end of it
-- @column coverage double (ratio): the share of that time with samples
-- @column rung tinyint: the measure behind its utilization (1 GPU utilization: an upper bound; 3 SM active)
-- @column wasted_gpu_hours double (GPU-hours): given and not used since the finding's subject began
-- @column wasted_cost double (currency): what they cost
-- @column currency text: of the cost
-- @column sentence text: the finding in words
-- @column evidence json: the numbers behind it
-- @null closed_at: still so; user_name, project, job: nobody holds it; cost: no price
SELECT
    f.finding_id, f.kind, g.uuid, g.node, g.gpu_index, g.model, h.user_name, h.project, h.job, h.job_name,
    f.opened_at, f.last_seen_at, f.closed_at, f.window_from, f.window_to, f.coverage, f.rung, f.wasted_gpu_hours,
    f.wasted_gpu_hours * p.per_gpu_hour AS wasted_cost, p.currency, f.sentence, f.evidence
FROM findings AS f
JOIN gpus AS g USING (gpu_id)
JOIN gpu_prices AS p USING (gpu_id)
LEFT JOIN holders AS h USING (holder_id)
WHERE f.opened_at < $to_ts AND (f.closed_at IS NULL OR f.closed_at > $from_ts)
    AND ($open IS NULL OR (f.closed_at IS NULL) = $open)
    AND ($node IS NULL OR g.node = $node) AND ($model IS NULL OR g.model = $model)
    AND ($project IS NULL OR h.project = $project) AND ($user IS NULL OR h.user_name = $user)
ORDER BY f.wasted_gpu_hours DESC NULLS LAST, f.opened_at, f.finding_id;
