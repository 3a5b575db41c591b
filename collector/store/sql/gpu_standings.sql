-- How every GPU stands. No parameters. Columns: uuid, node (what its machine is called), cluster (NULL: not told), source, parent_uuid (NULL: a board), is_gone, and
-- unlisted_ms (UTC ms; NULL: it is listed, or nobody can tell).
SELECT
    uuid, coalesce(host, node) AS node, cluster, source, parent_uuid, installed_to IS NOT NULL AS is_gone,
    epoch_ms(unlisted_from) AS unlisted_ms
FROM gpus;
