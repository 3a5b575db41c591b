-- Notes since when a GPU is listed no more. Parameters: uuid, unlisted_ms (UTC ms; NULL: it is listed).
UPDATE gpus SET unlisted_from = epoch_ms(CAST($unlisted_ms AS BIGINT)) WHERE uuid = $uuid;
