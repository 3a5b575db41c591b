-- How every GPU stands. No parameters. Columns: uuid, node, source, parent_uuid (NULL: a board), is_gone, and
-- unlisted_ms (UTC ms; NULL: it is listed, or nobody can tell).
SELECT uuid, node, source, parent_uuid, installed_to IS NOT NULL AS is_gone, epoch_ms(unlisted_from) AS unlisted_ms
FROM gpus;
