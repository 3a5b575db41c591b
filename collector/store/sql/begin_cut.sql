-- Notes since when a GPU is cut as it is. Parameters: uuid, from_ms (UTC ms).
UPDATE gpus SET cut_from = epoch_ms(CAST($from_ms AS BIGINT)) WHERE uuid = $uuid;
