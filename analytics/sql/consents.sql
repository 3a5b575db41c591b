-- What owners allow with their own jobs, by their own word: the last about each job, or about all, of each kind.
--
-- In the order in which they were said, whatever the clock said then: one that is set back must not silence a no.
--
-- @param as_of instant: the moment that is asked about; what held only until then is left out
-- @column user_name text: who said it, of jobs of their own
-- @column job text: the job it is about
-- @column kind text: pause, restart, resize, release or share
-- @column allowed boolean: yes or no
-- @column at_ms bigint (ms): when it was said
-- @column until_ms bigint (ms): until when it holds
-- @null job: all jobs of that user; allowed: what was said before is taken back; until_ms: until something else is said
SELECT user_name, job, kind, allowed, epoch_ms(said_at) AS at_ms, epoch_ms(until_at) AS until_ms
FROM consents
WHERE until_at IS NULL OR until_at > $as_of
QUALIFY row_number() OVER (PARTITION BY user_name, job, kind ORDER BY rowid DESC) = 1
ORDER BY rowid;
