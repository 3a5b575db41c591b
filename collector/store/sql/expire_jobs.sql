-- Lets go of submitted jobs that ended too long ago; the newest stays, because numbers go on from it. Who used which GPU
-- stays with the hours. Parameter: before_ms (UTC ms).
DELETE FROM entries
WHERE stand = 'ended' AND ended_at < epoch_ms(CAST($before_ms AS BIGINT))
    AND number < (SELECT max(number) FROM entries);
