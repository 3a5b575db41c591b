-- Lets go of what owners were told too long ago. Parameter: before_ms (UTC ms).
DELETE FROM tellings WHERE told_at < epoch_ms(CAST($before_ms AS BIGINT));
