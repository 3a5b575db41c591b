-- Ends a row of a GPU that is cut anew, and frees its UUID for the next. Parameters: uuid, former (the UUID that the
-- row has from now on), to_ms (UTC ms). What was gone before stays so.
UPDATE gpus SET
    uuid = $former, cut_of = $uuid, unlisted_from = NULL,
    installed_to = greatest(installed_from, least(installed_to, epoch_ms(CAST($to_ms AS BIGINT))))
WHERE uuid = $uuid;
