-- What one job's launcher was told, the oldest first; of a job that was told much, the newest thousand.
--
-- @param job text: the job
-- @column number bigint: the journal's intent
-- @column given_ms bigint (ms): when it was given
-- @column body text: the directive as JSON
-- @column acknowledged_ms bigint (ms): when its launcher acknowledged it, or a newer one
-- @column failed text: why it did not work
-- @null acknowledged_ms: not acknowledged; failed: it worked, or is not acknowledged
SELECT number, epoch_ms(given_at) AS given_ms, body, epoch_ms(handled_at) AS acknowledged_ms, failed
FROM (FROM directives WHERE job = $job ORDER BY number DESC LIMIT 1000)
ORDER BY number;
