-- Writes down what a job's owner was told. Parameters: job, at_ms (UTC ms), rung, message, reached (the ways on
-- which somebody was reached; NULL: nobody).
INSERT INTO tellings (job, told_at, rung, message, reached)
VALUES ($job, epoch_ms(CAST($at_ms AS BIGINT)), $rung, $message, $reached);
