-- Notes that a letter is in the outbox. Parameters: number, at_ms (UTC ms).
UPDATE alert_letters SET posted_at = epoch_ms(CAST($at_ms AS BIGINT)) WHERE number = $number;
