-- Processes on GPUs that were given to others: whose they are, and whose the GPU was meanwhile.
--
-- @param from_ts minute: start of the window
-- @param to_ts minute: end of the window, exclusive
-- @param node text = NULL: only this node
-- @param project text = NULL: only on GPUs that this project holds
-- @param user text = NULL: only this user's processes, or on GPUs that this user holds
-- @param model text = NULL: only GPUs of this model
-- @param uuid text = NULL: only this GPU
-- @param open flag = NULL: true: only what is still so; false: only what is over; NULL: both
-- @column uuid text: the GPU
-- @column node text: its machine
-- @column gpu_index integer: its index there
-- @column gpu_place text: what it is called there; of a MIG instance with profile and number (0/1g.10gb#7)
-- @column model text: its model
-- @column given_to text: the users (or jobs, where no user is known) that held it meanwhile, with commas between
-- @column user_name text: whose the process is
-- @column pid integer: the host's process id
-- @column process_name text: its name
-- @column command text: its command line
-- @column memory_used_bytes bigint (bytes): its memory on the GPU when last looked at
-- @column sm_ratio double (ratio): its share of the GPU's time when last looked at
-- @column from_ts timestamp: seen there since
-- @column to_ts timestamp: until
-- @never_null uuid, node, from_ts
-- @null to_ts: it is still there; else: not measured, or not readable from outside
WITH wanted AS (
    SELECT i.*, g.uuid, g.node, g.gpu_index,
        gpu_place(g.gpu_index, g.uuid, g.parent_uuid, g.mig_profile, g.gpu_instance, g.compute_instance) AS gpu_place,
        g.model
    FROM intrusions AS i JOIN gpus AS g USING (gpu_id)
    WHERE i.from_ts <= $to_ts AND (i.to_ts IS NULL OR i.to_ts > $from_ts)
        AND ($open IS NULL OR (i.to_ts IS NULL) = $open) AND ($uuid IS NULL OR $uuid IN (g.uuid, g.cut_of))
        AND ($node IS NULL OR g.node = $node) AND ($model IS NULL OR g.model = $model)
), given AS (
    SELECT
        w.gpu_id, w.process_id, w.from_ts,
        string_agg(DISTINCT coalesce(h.user_name, h.job), ', ' ORDER BY coalesce(h.user_name, h.job)) AS given_to,
        bool_or(h.project = $project) AS of_project, bool_or(h.user_name = $user) AS of_user
    FROM wanted AS w
    JOIN allocations AS a ON a.gpu_id = w.gpu_id AND (w.to_ts IS NULL OR a.from_ts < w.to_ts)
        AND (a.to_ts IS NULL OR a.to_ts > w.from_ts)
    JOIN holders AS h USING (holder_id)
    GROUP BY w.gpu_id, w.process_id, w.from_ts
), newest AS (
    SELECT s.gpu_id, s.process_id, arg_max(s.memory_used_bytes, s.ts) AS memory_used_bytes, arg_max(s.sm_e4, s.ts) AS sm_e4
    FROM process_samples AS s SEMI JOIN wanted AS w ON w.gpu_id = s.gpu_id AND w.process_id = s.process_id
    GROUP BY s.gpu_id, s.process_id
)
SELECT
    w.uuid, w.node, w.gpu_index, w.gpu_place, w.model, v.given_to, p.user_name, p.pid, p.process_name, p.command,
    n.memory_used_bytes, n.sm_e4 / 10000.0 AS sm_ratio, w.from_ts, w.to_ts
FROM wanted AS w
JOIN processes AS p USING (process_id)
LEFT JOIN given AS v ON v.gpu_id = w.gpu_id AND v.process_id = w.process_id AND v.from_ts = w.from_ts
LEFT JOIN newest AS n ON n.gpu_id = w.gpu_id AND n.process_id = w.process_id
WHERE ($project IS NULL OR v.of_project) AND ($user IS NULL OR v.of_user OR p.user_name = $user)
ORDER BY w.to_ts IS NOT NULL, w.from_ts DESC, w.node, w.gpu_index, p.pid;
