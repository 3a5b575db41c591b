-- The entries that have not ended, and the newest of those that have; the oldest first.
--
-- @param ended bigint: how many that have ended
-- @column body text: the entry as JSON
WITH done AS (
    SELECT number, body FROM entries WHERE stand = 'ended' ORDER BY number DESC LIMIT $ended
), live AS (
    SELECT number, body FROM entries WHERE stand <> 'ended'
)
SELECT body FROM (FROM done UNION ALL FROM live) ORDER BY number;
