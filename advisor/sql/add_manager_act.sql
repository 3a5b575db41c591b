-- Writes down what is about to be asked of a workload manager. Parameters: intent, job, verb (pause, resume), at_ms
-- (UTC ms), body (JSON).
INSERT INTO manager_acts (intent, job, verb, begun_at, body)
VALUES ($intent, $job, $verb, epoch_ms(CAST($at_ms AS BIGINT)), $body);
