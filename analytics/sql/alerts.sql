-- Cases of alerts, those that are open first, then the newest.
--
-- @param from_ts minute: start of the window
-- @param to_ts minute: end of the window; a case that was opened at that very moment is in it
-- @param node text = NULL: only on this node
-- @param project text = NULL: only of this project
-- @param user text = NULL: only of this user
-- @param open flag = NULL: true: only what is still so; false: only what is over; NULL: both
-- @column number bigint: the case
-- @column kind text: held-idle, memory-hog, ...
-- @column rung text: how bad, by its name
-- @column level integer: how bad; from 2 on receivers get a word
-- @column title text: what it is about
-- @column says text: the evidence in words
-- @column next text: what happens next, and when
-- @column command text: what answers it
-- @column job text: the job
-- @column user_name text: whose
-- @column project text: for which project
-- @column node text: on which machine
-- @column gpus text: the GPUs' UUIDs, with commas between
-- @column since_ts timestamp: since when it is so
-- @column opened_at timestamp: when the case was opened
-- @column changed_at timestamp: when it changed last
-- @column closed_at timestamp: over since
-- @column because text: why it is over
-- @column told text: whom a word reached, with commas between
-- @column told_at timestamp: when the newest of these words arrived
-- @column waiting text: whom one is on its way to, or is kept for
-- @column missed text: whom one did not reach
-- @column evidence json: the numbers behind it
-- @never_null number, kind, rung, title, says, next, since_ts
-- @null closed_at: still so; job, user_name, project, node: it is about none; told, told_at, waiting, missed: nobody
WITH words AS (
    SELECT
        alert,
        -- an address may hold a secret: of one, only its kind is shown
        split_part(regexp_replace(receiver, '^to:', ''), '://', 1) AS receiver,
        settled_at, CASE WHEN outcome = 'sent' THEN 'told' WHEN outcome IS NULL THEN 'waiting' ELSE 'missed' END AS outcome
    FROM alert_letters
    WHERE alert > 0
), reached AS (
    SELECT
        alert, string_agg(DISTINCT receiver, ', ' ORDER BY receiver) FILTER (WHERE outcome = 'told') AS told,
        max(settled_at) FILTER (WHERE outcome = 'told') AS told_at,
        string_agg(DISTINCT receiver, ', ' ORDER BY receiver) FILTER (WHERE outcome = 'waiting') AS waiting,
        string_agg(DISTINCT receiver, ', ' ORDER BY receiver) FILTER (WHERE outcome = 'missed') AS missed
    FROM words
    GROUP BY alert
)
SELECT
    c.number, c.kind, c.rung, c.level, c.title, c.says, c.next, c.command, c.job, c.user_name, c.project, c.node,
    c.gpus, c.since_at AS since_ts, c.opened_at, c.changed_at, c.closed_at, nullif(c.because, '') AS because,
    r.told, r.told_at, r.waiting, r.missed, c.evidence
FROM alert_cases AS c
LEFT JOIN reached AS r ON r.alert = c.number
WHERE c.opened_at <= $to_ts AND (c.closed_at IS NULL OR c.closed_at > $from_ts)
    AND ($open IS NULL OR (c.closed_at IS NULL) = $open)
    AND ($node IS NULL OR c.node = $node) AND ($project IS NULL OR c.project = $project)
    AND ($user IS NULL OR c.user_name = $user)
ORDER BY c.closed_at IS NOT NULL, c.opened_at DESC, c.number DESC;
