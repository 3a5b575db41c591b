-- GPU-hours of GPUs that several held at once, and of how many of them nobody tells whose the use was.
--
-- What nobody tells is charged to all who held the GPU alike, by their shares. A time counts as told where the use of
-- single processes was, and each that did something was of one of the holders, or an intruder; or that of single pods.
--
-- @param from_ts minute: start of the window
-- @param to_ts minute: end of the window, exclusive
-- @param node text = NULL: only this node
-- @param project text = NULL: only what this project held
-- @param user text = NULL: only what this user held
-- @param model text = NULL: only GPUs of this model
-- @column shared_gpu_hours double (GPU-hours): on GPUs that another job held too, by shares
-- @column alike_gpu_hours double (GPU-hours): of these, charged alike
-- @column unclear_gpu_hours double (GPU-hours): of these, neither: what its processes did is not kept that long
-- @never_null shared_gpu_hours, alike_gpu_hours, unclear_gpu_hours
-- @null never
WITH newest AS (
    SELECT least($to_ts, coalesce(max(complete_to), $to_ts)) AS to_ts FROM watermarks WHERE name = 'rollup_1m'
), held AS (
    SELECT
        a.gpu_id, a.holder_id, h.user_name, h.project, a.share, g.share_of_device,
        greatest(a.from_ts, $from_ts) AS from_ts, least(coalesce(a.to_ts, n.to_ts), n.to_ts) AS to_ts
    FROM allocations AS a JOIN holders AS h USING (holder_id) JOIN gpus AS g USING (gpu_id), newest AS n
    WHERE a.from_ts < n.to_ts AND (a.to_ts IS NULL OR a.to_ts > $from_ts)
        AND ($node IS NULL OR g.node = $node) AND ($model IS NULL OR g.model = $model)
), pieces AS (
    SELECT gpu_id, ts AS from_ts, lead(ts) OVER (PARTITION BY gpu_id ORDER BY ts) AS to_ts
    FROM (SELECT gpu_id, from_ts AS ts FROM held UNION SELECT gpu_id, to_ts AS ts FROM held)
), shared AS (
    SELECT
        p.gpu_id, p.from_ts, p.to_ts, list(DISTINCT h.holder_id) AS holders, list(DISTINCT h.user_name) AS users,
        epoch_ms(p.to_ts - p.from_ts) / 3600000.0 * min(h.share_of_device)
            * sum(CASE WHEN ($project IS NULL OR h.project = $project) AND ($user IS NULL OR h.user_name = $user)
                THEN h.share ELSE 0 END) / sum(h.share) AS gpu_hours
    FROM pieces AS p
    JOIN held AS h ON h.gpu_id = p.gpu_id AND h.from_ts < p.to_ts AND h.to_ts > p.from_ts
    GROUP BY p.gpu_id, p.from_ts, p.to_ts
    HAVING count(DISTINCT h.holder_id) > 1
), seen AS (
    SELECT s.*, EXISTS (
        SELECT 1 FROM holder_samples AS e
        WHERE e.gpu_id = s.gpu_id AND e.ts > s.from_ts AND e.ts <= s.to_ts AND e.gpu_utilization_e4 IS NOT NULL
    ) AS of_pods
    FROM shared AS s
), told AS (
    SELECT
        s.gpu_id, s.from_ts, any_value(s.gpu_hours) AS gpu_hours, bool_or(r.sm_e4 IS NOT NULL OR s.of_pods) AS any_told,
        coalesce(bool_or(NOT s.of_pods AND coalesce(r.sm_e4, 0) > 0 AND i.process_id IS NULL AND CASE
            WHEN p.holder_id IS NOT NULL THEN NOT list_contains(s.holders, p.holder_id)
            ELSE p.user_name IS NULL OR NOT list_contains(s.users, p.user_name) END), false) AS any_unknown,
        coalesce(any_value(s.from_ts < k.complete_to AND NOT s.of_pods), false) AS is_cut
    FROM seen AS s
    LEFT JOIN process_samples AS r ON r.gpu_id = s.gpu_id AND r.ts > s.from_ts AND r.ts <= s.to_ts
    LEFT JOIN processes AS p ON p.process_id = r.process_id
    LEFT JOIN (SELECT DISTINCT gpu_id, process_id FROM intrusions) AS i
        ON i.gpu_id = r.gpu_id AND i.process_id = r.process_id
    LEFT JOIN watermarks AS k ON k.name = 'processes_kept'
    GROUP BY s.gpu_id, s.from_ts
)
SELECT
    coalesce(sum(gpu_hours), 0.0) AS shared_gpu_hours,
    coalesce(sum(gpu_hours) FILTER (any_unknown OR (NOT is_cut AND NOT any_told)), 0.0)
        AS alike_gpu_hours,
    coalesce(sum(gpu_hours) FILTER (NOT any_unknown AND is_cut), 0.0) AS unclear_gpu_hours
FROM told;
