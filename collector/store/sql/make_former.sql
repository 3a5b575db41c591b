-- Makes a row of gpus what a GPU was before it was known as it is. Parameters: former (the row's UUID), uuid (the
-- GPU's), to_ms (UTC ms: since when it is known).
UPDATE gpus SET cut_of = $uuid, installed_to = epoch_ms(CAST($to_ms AS BIGINT)) WHERE uuid = $former;
