-- Keeps a letter before it goes out. Parameters: number, alert (its case), opened_ms (of the case), receiver,
-- kind, turn, title, body, made_ms, due_ms, gathered, telling (NULL: the ladder does not wait for it); times are
-- UTC ms.
INSERT INTO alert_letters
    (number, alert, opened_at, receiver, kind, turn, title, body, made_at, due_at, gathered, telling)
VALUES (
    $number, $alert, epoch_ms(CAST($opened_ms AS BIGINT)), $receiver, $kind, $turn, $title, $body,
    epoch_ms(CAST($made_ms AS BIGINT)), epoch_ms(CAST($due_ms AS BIGINT)), $gathered, $telling);
