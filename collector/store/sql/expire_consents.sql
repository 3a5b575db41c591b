-- Lets go of what owners allowed, where it was said too long ago and holds no more: its time is over, something else was
-- said since, it takes back what is gone as well, or its job has ended. A word that holds stays, however old.
-- Parameter: before_ms (UTC ms).
DELETE FROM consents
WHERE said_at < epoch_ms(CAST($before_ms AS BIGINT)) AND (
    until_at < epoch_ms(CAST($before_ms AS BIGINT))
    OR EXISTS (
        FROM consents AS later
        WHERE later.user_name = consents.user_name AND later.job IS NOT DISTINCT FROM consents.job
            AND later.kind = consents.kind AND later.rowid > consents.rowid AND later.until_at IS NULL
    )
    OR allowed IS NULL AND NOT EXISTS (
        FROM consents AS earlier
        WHERE earlier.user_name = consents.user_name AND earlier.job IS NOT DISTINCT FROM consents.job
            AND earlier.kind = consents.kind AND earlier.rowid < consents.rowid
    )
    OR EXISTS (
        FROM entries
        WHERE entries.job = consents.job AND entries.stand = 'ended'
            AND entries.ended_at < epoch_ms(CAST($before_ms AS BIGINT))
    )
    OR job LIKE 'fallow:%' AND job NOT IN (SELECT job FROM entries)
    OR EXISTS (
        FROM holders
        WHERE holders.job = consents.job AND consents.job NOT LIKE 'fallow:%'
            AND holders.last_seen < epoch_ms(CAST($before_ms AS BIGINT))
    )
);
