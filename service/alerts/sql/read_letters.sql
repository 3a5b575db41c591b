-- The letters of which something is to be done: not posted yet and due, or posted and their outcome not known.
-- Parameter: due_ms (UTC ms). Columns: number, alert, opened_ms, receiver, kind, turn, title, body, made_ms, due_ms,
-- gathered, telling, posted_ms (NULL: not yet); times are UTC ms.
SELECT
    number, alert, epoch_ms(opened_at) AS opened_ms, receiver, kind, turn, title, body,
    epoch_ms(made_at) AS made_ms, epoch_ms(due_at) AS due_ms, gathered, telling, epoch_ms(posted_at) AS posted_ms
FROM alert_letters
WHERE digest IS NULL AND outcome IS NULL AND due_at <= epoch_ms(CAST($due_ms AS BIGINT))
ORDER BY number;
