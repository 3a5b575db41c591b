-- What was found about waste and faults, and what its holder wasted on its GPU in the window, the dearest first.
--
-- Several findings about one GPU and one holder bear the same hours: what they come to together is in `waste`, where
-- an hour counts once. A finding about a whole job bears what the job wasted on all its GPUs.
--
-- @param from_ts minute: start of the window
-- @param to_ts minute: end of the window; what was first found at that very moment is in it, as an import's findings are
-- @param node text = NULL: only this node
-- @param project text = NULL: only what this project held
-- @param user text = NULL: only what this user held
-- @param model text = NULL: only GPUs of this model
-- @param open flag = NULL: true: only what is still so; false: only what is over; NULL: both
-- @mark hours_to rollup_1h
-- @mark days_to rollup_1d
-- @column finding_id integer: its number
-- @column kind text: held-idle, allocated-empty, ...
-- @column uuid text: the GPU
-- @column node text: its machine
-- @column gpu_index integer: its index there
-- @column gpu_place text: what it is called there; of a MIG instance with profile and number (0/1g.10gb#7)
-- @column model text: its model
-- @column user_name text: who holds it; of an unproven claim, who claims it
-- @column project text: for which project
-- @column job text: the job's id
-- @column job_name text: the job's name
-- @column job_kind text: interactive, batch or inference
-- @column opened_at timestamp: first found
-- @column last_seen_at timestamp: last found
-- @column closed_at timestamp: over since
-- @column window_from timestamp: start of the time it was judged on
-- @column window_to timestamp: end of it
-- @column coverage double (ratio): the share of that time with samples
-- @column rung tinyint: the measure behind its utilization (1 GPU utilization: an upper bound; 3 SM active)
-- @column wasted_gpu_hours double (GPU-hours): allocated-empty and held-idle by its holder on its GPU, in the window
-- @column low_saturation_gpu_hours double (GPU-hours): low saturation likewise, which is no waste
-- @column wasted_cost double (currency): of wasted_gpu_hours
-- @column currency text: of the cost
-- @column wasted_energy_kwh double (kWh): used in wasted_gpu_hours
-- @column wasted_energy_known_ratio double (ratio): the part of wasted_gpu_hours of which energy is known
-- @column sentence text: the finding in words
-- @column judged_gpu_hours double (GPU-hours): idle or empty since it began, as judged last
-- @column evidence json: the numbers behind it
-- @never_null finding_id, kind, uuid, node, opened_at, last_seen_at, window_from, window_to, sentence
-- @null closed_at: still so; user_name, project, job: nobody holds it, or not known; cost: no price; hours: no waste; wasted_energy_kwh: not measured, or no waste; its ratio: no waste
WITH chosen AS (
    SELECT
        f.*, g.uuid, g.node, g.gpu_index,
        gpu_place(g.gpu_index, g.uuid, g.parent_uuid, g.mig_profile, g.gpu_instance, g.compute_instance) AS gpu_place,
        g.model, h.project, h.job, h.job_name, h.kind AS job_kind,
        CASE WHEN f.kind = 'unproven-claim' THEN json_extract_string(f.evidence, '$.user') ELSE h.user_name END AS user_name,
        f.kind IN ('uses-part', 'straggler', 'may-hang') AS is_of_job,
        f.kind IN ('suspect-counters', 'zombie-memory', 'falling-gpu', 'intruder', 'unproven-claim') AS is_no_waste
    FROM findings AS f
    JOIN gpus AS g USING (gpu_id)
    LEFT JOIN holders AS h USING (holder_id)
    WHERE f.opened_at <= $to_ts AND (f.closed_at IS NULL OR f.closed_at > $from_ts)
        AND ($open IS NULL OR (f.closed_at IS NULL) = $open)
        AND ($node IS NULL OR g.node = $node) AND ($model IS NULL OR g.model = $model)
        AND ($project IS NULL OR h.project = $project) AND ($user IS NULL OR h.user_name = $user
            OR (f.kind = 'unproven-claim' AND json_extract_string(f.evidence, '$.user') = $user))
), spent AS (
    SELECT
        gpu_id, holder_id, sum(allocated_empty_ms + held_idle_ms)::BIGINT AS wasted_ms,
        sum(low_saturation_ms)::BIGINT AS low_ms,
        sum(coalesce(allocated_empty_energy_mj, 0) + coalesce(held_idle_energy_mj, 0))::BIGINT AS wasted_energy_mj,
        sum(wasted_energy_ms)::BIGINT AS wasted_energy_ms
    FROM usage($from_ts, $to_ts, $hours_to, $days_to)
    WHERE holder_id IN (SELECT holder_id FROM chosen)
    GROUP BY gpu_id, holder_id
), sums AS (
    SELECT
        c.finding_id, coalesce(sum_hours(s.wasted_ms, g.share_of_device), 0.0) AS wasted_gpu_hours,
        coalesce(sum_hours(s.low_ms, g.share_of_device), 0.0) AS low_saturation_gpu_hours,
        sum_money(s.wasted_ms, g.share_of_device, p.per_gpu_hour, p.currency) AS wasted_cost,
        one_currency(p.currency) AS currency,
        kwh(sum(s.wasted_energy_mj), sum(s.wasted_energy_ms), sum(s.wasted_ms)) AS wasted_energy_kwh,
        sum(coalesce(s.wasted_energy_ms, 0)) / nullif(sum(s.wasted_ms), 0) AS wasted_energy_known_ratio
    FROM chosen AS c
    JOIN spent AS s ON s.holder_id = c.holder_id AND (c.is_of_job OR s.gpu_id = c.gpu_id)
    JOIN gpus AS g ON g.gpu_id = s.gpu_id
    JOIN gpu_prices AS p ON p.gpu_id = s.gpu_id
    WHERE NOT c.is_no_waste
    GROUP BY c.finding_id
)
SELECT
    c.finding_id, c.kind, c.uuid, c.node, c.gpu_index, c.gpu_place, c.model, c.user_name, c.project, c.job, c.job_name,
    c.job_kind, c.opened_at, c.last_seen_at, c.closed_at, c.window_from, c.window_to, c.coverage, c.rung, s.wasted_gpu_hours,
    s.low_saturation_gpu_hours, s.wasted_cost, s.currency,
    s.wasted_energy_kwh, s.wasted_energy_known_ratio, c.sentence, c.wasted_gpu_hours AS judged_gpu_hours, c.evidence
FROM chosen AS c
LEFT JOIN sums AS s USING (finding_id)
ORDER BY s.wasted_gpu_hours DESC NULLS LAST, c.opened_at, c.finding_id;
