-- The times in which something was not measured, and why, newest first.
--
-- @param from_ts minute: start of the window
-- @param to_ts minute: end of the window, exclusive
-- @column source text: who was blind
-- @column node text: on which machine
-- @column uuid text: to which GPU
-- @column from_ts timestamp: since when
-- @column to_ts timestamp: until when
-- @column reason text: why
-- @never_null source, from_ts, to_ts, reason
-- @null node, uuid: the whole source was blind
SELECT a.source, coalesce(g.node, a.node) AS node, g.uuid, a.from_ts, a.to_ts, a.reason
FROM gaps AS a
LEFT JOIN gpus AS g USING (gpu_id)
WHERE a.from_ts < $to_ts AND a.to_ts > $from_ts
ORDER BY a.from_ts DESC, a.source, g.uuid;
