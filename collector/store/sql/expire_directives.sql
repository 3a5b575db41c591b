-- Lets go of directives that were acknowledged too long ago; the newest stays, because numbers go on from it.
-- Parameter: before_ms (UTC ms).
DELETE FROM directives
WHERE handled_at < epoch_ms(CAST($before_ms AS BIGINT)) AND number < (SELECT max(number) FROM directives);
