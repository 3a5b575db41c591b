-- Writes down what a site's own command is about to be asked. Parameters: intent, job, verb (pause, resume), at_ms
-- (UTC ms), body (JSON).
INSERT INTO hook_acts (intent, job, verb, begun_at, body)
VALUES ($intent, $job, $verb, epoch_ms(CAST($at_ms AS BIGINT)), $body);
