-- Writes down that a foreign job is about to be taken off its GPUs. Parameters: job, intent, at_ms (UTC ms), body.
INSERT INTO checkpoints (job, intent, begun_at, body)
VALUES ($job, $intent, epoch_ms(CAST($at_ms AS BIGINT)), $body);
