-- Letters that the ladder waits for and that have arrived, by themselves or in a digest. No parameters. Columns:
-- number, job, receiver, body, made_ms (UTC ms).
SELECT number, telling AS job, receiver, body, epoch_ms(made_at) AS made_ms
FROM alert_letters
WHERE telling IS NOT NULL AND outcome = 'sent' AND noted_at IS NULL
ORDER BY number;
