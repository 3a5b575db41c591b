-- One entry, however long ago it ended.
--
-- @param job text: the job
-- @column body text: the entry as JSON
SELECT body FROM entries WHERE job = $job;
