-- Lets go of intents that were settled too long ago; the newest stays, because numbers go on from it.
-- Parameter: before_ms (UTC ms).
DELETE FROM intents
WHERE settled_at < epoch_ms(CAST($before_ms AS BIGINT)) AND intent < (SELECT max(intent) FROM intents);
