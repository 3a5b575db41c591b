-- Letters to a receiver about a job that the ladder waits for and that have not arrived yet. Parameters: job,
-- receiver. Columns: number, due_ms (UTC ms).
SELECT number, epoch_ms(due_at) AS due_ms
FROM alert_letters
WHERE telling = $job AND receiver = $receiver AND outcome IS NULL
ORDER BY number;
