-- Add directives that are about to be given.
--
-- Reads the table `telling`: number, job, given_ms, body.
INSERT INTO directives
SELECT number, job, make_timestamp_ms(given_ms), body, NULL, NULL FROM telling;
