-- Notes what became of a letter, and of those that it gathered. Parameters: number, at_ms (UTC ms), outcome (sent,
-- given-up, nobody), found.
UPDATE alert_letters SET
    outcome = $outcome, found = $found, settled_at = epoch_ms(CAST($at_ms AS BIGINT)),
    posted_at = coalesce(posted_at, epoch_ms(CAST($at_ms AS BIGINT)))
WHERE number = $number OR digest = $number;
