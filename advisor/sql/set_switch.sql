-- Sets a switch. Parameters: name, is_on, at_ms (UTC ms), by_user, because.
INSERT INTO switches (name, is_on, set_at, by_user, because)
VALUES ($name, $is_on, epoch_ms(CAST($at_ms AS BIGINT)), $by_user, $because)
ON CONFLICT (name) DO UPDATE SET
    is_on = excluded.is_on, set_at = excluded.set_at, by_user = excluded.by_user, because = excluded.because;
