-- Writes down somebody's word that a job is left alone. Parameters: job, at_ms, until_ms (UTC ms), by_user.
INSERT INTO keeps (job, kept_at, until_at, by_user)
VALUES ($job, epoch_ms(CAST($at_ms AS BIGINT)), epoch_ms(CAST($until_ms AS BIGINT)), $by_user);
