-- Notes that the ladder knows of a letter's arrival. Parameters: number, at_ms (UTC ms).
UPDATE alert_letters SET noted_at = epoch_ms(CAST($at_ms AS BIGINT)) WHERE number = $number;
