-- What was done to give GPUs back, and who worked on them then: a row a deed of the journal that was carried out.
--
-- A deed frees a share of each GPU that its job had and has no more: from when it was carried out until the job is
-- given a GPU again, ends, or somebody who came onto that GPU since is moved off it by a later deed, whose the GPU's
-- time is from then on. What one deed freed no later one on the same job frees again. Two exceptions: a restart with
-- other memory settings and a release of caches free the rest of a GPU that the job keeps, for as long as it keeps
-- it; a move for a gang that waits frees for that gang alone. Taken is that time only by jobs that were given the
-- GPU after the deed began, minute by minute (whole GPUs by whole hours, which comes to the same). Turns that Fallow takes between jobs (fair
-- share, starts, backfill) free nothing: one gets what another loses. Ends for good are left out: nobody knows when
-- the job would have ended by itself.
--
-- @param from_ts minute: start of the window
-- @param to_ts minute: end of the window, exclusive
-- @mark minutes_to rollup_1m
-- @mark hours_to rollup_1h
-- @column intent bigint: the action's number in the journal
-- @column done_at timestamp: when it was carried out
-- @column job text: the job whose GPUs were freed
-- @column user_name text: whose
-- @column project text: for which project
-- @column verb text: pause, requeue, resize, move or release-memory
-- @column class text: reclaim, cap-memory, pack, resize or consolidate; people: ordered by a person, of their own
-- @column gpus bigint (GPUs): of how many GPUs it freed something
-- @column due_gpu_hours double (GPU-hours): the time within the window in which they were to be free, rolled up or not
-- @column known_gpu_hours double (GPU-hours): of it, measured
-- @column freed_gpu_hours double (GPU-hours): of it, its job was off them
-- @column held_gpu_hours double (GPU-hours): of that, another job held them
-- @column worked_gpu_hours double (GPU-hours): of that, and computed there
-- @column worked_cost double (currency): the price of the last
-- @column currency text: of the cost
-- @null user_name, project: not known; worked_cost: no price
WITH deeds AS (
    SELECT
        intent, job, verb, coalesce(t.ts, begun_at) AS begun_at, settled_at, try_cast(step AS JSON) AS step,
        CASE
            WHEN actor <> 'fallow' AND plan IS NULL THEN 'people'
            WHEN verb = 'resize' THEN 'resize'
            ELSE (try_cast(step AS JSON) ->> '$.action')
        END AS class,
        try_cast((try_cast(stood AS JSON) -> '$.gpus') AS VARCHAR[]) AS before,
        try_cast((try_cast(stood AS JSON) ->> '$.share') AS DOUBLE) AS share
    -- Who came is dated from the tick before he was seen: from the last one before the deed began, at the earliest.
    FROM intents ASOF LEFT JOIN ticks AS t ON t.ts <= begun_at
    WHERE outcome = 'done' AND settled_at < $to_ts AND verb IN ('pause', 'requeue', 'resize', 'move', 'release-memory')
), meant AS (
    SELECT
        * EXCLUDE (step), (step ->> '$.for_job') AS for_job,
        coalesce(try_cast((step ->> '$.share') AS DOUBLE), share) AS to_share,
        coalesce(CASE WHEN verb IN ('resize', 'move') THEN try_cast((step -> '$.gpus') AS VARCHAR[]) END, []) AS after,
        verb = 'release-memory' OR (verb = 'move' AND class = 'cap-memory') AS keeps
    FROM deeds
    WHERE before IS NOT NULL AND share IS NOT NULL
        AND class IN ('reclaim', 'cap-memory', 'pack', 'resize', 'consolidate', 'people')
        AND (class <> 'consolidate' OR for_job IS NOT NULL)
), counted AS (
    SELECT
        m.*, h.holder_id,
        len(list_filter(before, lambda gpu: NOT list_contains(after, gpu))) AS gone,
        len(list_filter(after, lambda gpu: NOT list_contains(before, gpu))) AS come
    FROM meant AS m LEFT JOIN holders AS h USING (job)
), single AS (
    SELECT
        c.* EXCLUDE (before), unnest(before) AS uuid
    FROM counted AS c
), freed AS (
    SELECT
        s.*, g.gpu_id, g.share_of_device,
        CASE
            WHEN keeps THEN 1 - share
            WHEN class = 'pack' AND (verb = 'requeue' OR to_share > share) THEN 0  -- a pair that is parted
            WHEN list_contains(after, uuid) THEN 0
            WHEN verb = 'resize' THEN share * greatest(0, gone - come) / gone
            ELSE share
        END AS freed_share
    FROM single AS s JOIN gpus AS g USING (uuid)
), ends AS (
    -- Held again for less than two minutes is its processes on their way out.
    SELECT
        f.intent, f.gpu_id,
        least(
            min(CASE WHEN NOT f.keeps AND a.from_ts >= f.settled_at AND NOT list_contains(f.after, g.uuid)
                AND coalesce(a.to_ts, $to_ts) - a.from_ts >= INTERVAL 2 MINUTE THEN a.from_ts END),
            CASE WHEN f.keeps THEN coalesce(min(CASE WHEN a.gpu_id = f.gpu_id AND a.from_ts <= f.settled_at
                AND coalesce(a.to_ts, $to_ts) > f.settled_at THEN coalesce(a.to_ts, $to_ts) END), f.settled_at) END
        ) AS held_again
    FROM freed AS f
    LEFT JOIN allocations AS a ON a.holder_id = f.holder_id
    LEFT JOIN gpus AS g ON g.gpu_id = a.gpu_id
    GROUP BY f.intent, f.gpu_id, f.keeps, f.settled_at
), passed_on AS (
    SELECT i.intent, i.gpu_id, min(j.settled_at) AS passed_at
    FROM freed AS i
    JOIN freed AS j ON j.gpu_id = i.gpu_id AND j.settled_at > i.settled_at AND j.job <> i.job AND j.freed_share > 0
    SEMI JOIN allocations AS a
        ON a.gpu_id = j.gpu_id AND a.holder_id = j.holder_id AND a.from_ts >= i.begun_at AND a.from_ts < j.settled_at
    GROUP BY ALL
), ended AS (
    SELECT intent, min(ended_at) AS ended_at FROM (
        SELECT d.intent, e.ended_at FROM meant AS d JOIN entries AS e USING (job) WHERE e.ended_at >= d.settled_at
        UNION ALL
        SELECT d.intent, c.ended_at FROM meant AS d JOIN checkpoints AS c USING (intent) WHERE c.ended_at >= d.settled_at
    ) GROUP BY intent
), spans AS (
    SELECT
        f.intent, f.gpu_id, f.holder_id, f.job, f.begun_at, f.settled_at, f.for_job, f.class, f.keeps, f.freed_share,
        f.share_of_device, least($to_ts, $minutes_to, e.held_again, p.passed_at, o.ended_at) AS to_ts
    FROM freed AS f
    JOIN ends AS e USING (intent, gpu_id)
    LEFT JOIN passed_on AS p USING (intent, gpu_id)
    LEFT JOIN ended AS o USING (intent)
    WHERE f.freed_share > 0
), stretches AS (
    -- A job's GPU that an earlier deed on it freed already is freed by no later one.
    SELECT s.*, greatest(s.settled_at, $from_ts) AS from_ts
    FROM spans AS s
    WHERE NOT EXISTS (
        SELECT 1 FROM spans AS earlier
        WHERE earlier.job = s.job AND earlier.gpu_id = s.gpu_id AND earlier.intent < s.intent
            AND earlier.settled_at <= s.settled_at AND earlier.to_ts > s.settled_at)
), open_stretches AS (
    SELECT
        *, time_bucket(INTERVAL 1 HOUR, from_ts + INTERVAL '3599.999999' SECOND) AS whole_from,
        CASE WHEN freed_share = 1 THEN least($hours_to, time_bucket(INTERVAL 1 HOUR, to_ts)) ELSE from_ts END AS whole_to
    FROM stretches WHERE from_ts < to_ts
), came AS (
    SELECT s.intent, s.gpu_id, a.holder_id, a.from_ts, coalesce(a.to_ts, s.to_ts) AS to_ts
    FROM open_stretches AS s
    JOIN allocations AS a ON a.gpu_id = s.gpu_id AND a.holder_id IS DISTINCT FROM s.holder_id
        AND a.from_ts >= s.begun_at AND a.from_ts < s.to_ts
    JOIN holders AS h ON h.holder_id = a.holder_id
    WHERE s.class <> 'consolidate' OR h.job = s.for_job
), rolled AS (
    SELECT s.* EXCLUDE (to_ts), s.to_ts AS until_ts, r.*, r.ts + INTERVAL 1 HOUR AS end_ts
    FROM open_stretches AS s
    JOIN rollup_1h AS r ON r.gpu_id = s.gpu_id AND r.ts >= s.whole_from AND r.ts < s.whole_to
    WHERE r.ts >= $from_ts AND r.ts < $to_ts
    UNION ALL
    SELECT s.* EXCLUDE (to_ts), s.to_ts AS until_ts, r.*, r.ts + INTERVAL 1 MINUTE AS end_ts
    FROM open_stretches AS s
    JOIN rollup_1m AS r ON r.gpu_id = s.gpu_id AND r.ts > s.from_ts - INTERVAL 1 MINUTE AND r.ts < s.to_ts
        AND (r.ts < s.whole_from OR r.ts >= s.whole_to)
    WHERE r.ts > $from_ts - INTERVAL 1 MINUTE AND r.ts < $to_ts
), judged AS (
    SELECT
        r.intent, r.gpu_id, r.ts, r.share_of_device, r.freed_share, r.keeps, r.holder_id AS own_id, r.holder_id_1 AS by_id,
        epoch_ms(least(until_ts, end_ts)) - epoch_ms(greatest(from_ts, ts)) AS overlap_ms, held_ms,
        low_saturation_ms + moderate_ms + good_ms AS work_ms,
        free_ms + allocated_empty_ms + held_idle_ms + work_ms AS known_ms, known_ms + suspect_ms + withheld_ms + unknown_ms AS rolled_ms,
        by_id IS NOT NULL AND EXISTS (
            SELECT 1 FROM came AS c
            WHERE c.intent = r.intent AND c.gpu_id = r.gpu_id AND c.holder_id = r.holder_id_1
                AND c.from_ts < r.end_ts AND c.to_ts > r.ts) AS is_newcomer
    FROM rolled AS r
), parts AS (
    SELECT
        intent, gpu_id, share_of_device, freed_share, keeps,
        least(overlap_ms, sum(rolled_ms)) AS overlap_ms, least(overlap_ms, sum(known_ms)) AS known_ms,
        sum(CASE WHEN by_id = own_id THEN held_ms ELSE 0 END) AS own_ms,
        sum(CASE WHEN is_newcomer THEN held_ms ELSE 0 END) AS other_ms,
        sum(CASE WHEN is_newcomer THEN work_ms ELSE 0 END) AS other_work_ms
    FROM judged
    GROUP BY intent, gpu_id, share_of_device, freed_share, keeps, judged.overlap_ms, ts
), bounded AS (
    SELECT
        intent, gpu_id, share_of_device, freed_share * known_ms AS known_ms,
        CASE WHEN keeps THEN freed_share * CASE WHEN own_ms > 0 THEN overlap_ms ELSE 0 END
            ELSE freed_share * greatest(0, overlap_ms - own_ms) END AS freed_ms,
        least(other_ms, freed_ms) AS taken_ms, least(other_work_ms, freed_ms) AS worked_ms
    FROM parts
), sums AS (
    SELECT
        intent, gpu_id, sum(known_ms) AS known_ms, sum(freed_ms) AS freed_ms, sum(taken_ms) AS taken_ms,
        sum(worked_ms) AS worked_ms
    FROM bounded GROUP BY ALL
), each_gpu AS (
    SELECT
        s.intent, s.share_of_device,
        s.freed_share * greatest(0, epoch_ms(s.to_ts) - epoch_ms(s.from_ts)) AS due_ms,
        coalesce(m.known_ms, 0) AS known_ms, coalesce(m.freed_ms, 0) AS freed_ms, coalesce(m.taken_ms, 0) AS taken_ms,
        coalesce(m.worked_ms, 0) AS worked_ms, p.per_gpu_hour, p.currency, s.from_ts < s.to_ts AS is_open
    FROM stretches AS s
    JOIN gpu_prices AS p USING (gpu_id)
    LEFT JOIN sums AS m USING (intent, gpu_id)
)
SELECT
    d.intent, d.settled_at AS done_at, d.job, any_value(h.user_name) AS user_name, any_value(h.project) AS project,
    d.verb, d.class, count(*) AS gpus, sum_hours(due_ms, share_of_device) AS due_gpu_hours,
    sum_hours(known_ms, share_of_device) AS known_gpu_hours, sum_hours(freed_ms, share_of_device) AS freed_gpu_hours,
    sum_hours(taken_ms, share_of_device) AS held_gpu_hours, sum_hours(worked_ms, share_of_device) AS worked_gpu_hours,
    sum_money(worked_ms, share_of_device, per_gpu_hour, currency) AS worked_cost, one_currency(currency) AS currency
FROM meant AS d
JOIN each_gpu AS e USING (intent)
LEFT JOIN holders AS h ON h.job = d.job
WHERE e.is_open OR d.settled_at >= $from_ts
GROUP BY d.intent, d.settled_at, d.job, d.verb, d.class
ORDER BY d.settled_at, d.intent;
