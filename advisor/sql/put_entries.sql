-- Keep entries of the register as they are now; the newest word on a job replaces the one before.
--
-- Reads the table `coming`: job, number, nonce, user_name, project, stand, submitted_ms, ended_ms, body.
INSERT INTO entries
SELECT
    job, number, nonce, user_name, project, stand,
    make_timestamp_ms(submitted_ms), make_timestamp_ms(ended_ms), body
FROM coming
ON CONFLICT (job) DO UPDATE SET stand = excluded.stand, ended_at = excluded.ended_at, body = excluded.body;
