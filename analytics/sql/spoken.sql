-- What owners were told and the words that keep a job, oldest first: what the ladder has to remember.
--
-- A telling has no until_ms, a keep has one.
--
-- @param from_ts instant: nothing older
-- @column job text: the job spoken about
-- @column at_ms bigint (ms): when
-- @column rung text: of a telling, why it was said
-- @column reached text: of a telling, the ways on which it reached somebody
-- @column until_ms bigint (ms): of a keep, until when the job is left alone
-- @column by_user text: of a keep, whose word it is
-- @null reached: a telling that reached nobody; else: belongs to the other kind
SELECT job, epoch_ms(told_at) AS at_ms, rung, reached, NULL::BIGINT AS until_ms, NULL::VARCHAR AS by_user
FROM tellings
WHERE told_at >= $from_ts
UNION ALL
SELECT job, epoch_ms(kept_at), NULL, NULL, epoch_ms(until_at), by_user
FROM keeps
WHERE kept_at >= $from_ts
ORDER BY at_ms, job, until_ms NULLS FIRST;
