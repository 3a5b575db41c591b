-- Lets go of findings that were closed too long ago. Parameter: before_ms (UTC ms).
DELETE FROM findings WHERE closed_at < epoch_ms(CAST($before_ms AS BIGINT));
