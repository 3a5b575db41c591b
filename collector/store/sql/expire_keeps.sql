-- Lets go of keeps that ended too long ago. Parameter: before_ms (UTC ms).
DELETE FROM keeps WHERE until_at < epoch_ms(CAST($before_ms AS BIGINT));
