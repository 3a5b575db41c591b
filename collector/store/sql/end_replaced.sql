-- Ends the time of boards in whose place, a node's index, another one was measured for the first time after their newest sample
-- and those of their MIG instances: one was swapped for the other. Boards that were known before and have another index now,
-- as after a restart of the driver, replace nobody. No parameters.
UPDATE gpus SET installed_to = greatest(installed_from, r.until_ts)
FROM (
    SELECT o.uuid, o.until_ts
    FROM (
        SELECT b.uuid, coalesce(b.host, b.node) AS node, b.cluster, b.gpu_index, max(l.ts) AS until_ts
        FROM gpus AS b
        JOIN gpus AS part ON part.uuid = b.uuid OR part.parent_uuid = b.uuid
        JOIN latest AS l ON l.gpu_id = part.gpu_id
        WHERE b.parent_uuid IS NULL AND b.cut_of IS NULL AND b.installed_to IS NULL
        GROUP BY ALL
    ) AS o
    JOIN gpus AS n ON coalesce(n.host, n.node) = o.node AND n.cluster IS NOT DISTINCT FROM o.cluster
        AND n.gpu_index = o.gpu_index AND n.uuid <> o.uuid AND n.parent_uuid IS NULL AND n.cut_of IS NULL
        AND n.installed_to IS NULL AND n.installed_from >= o.until_ts
    GROUP BY ALL
) AS r
WHERE gpus.installed_to IS NULL AND (gpus.uuid = r.uuid OR gpus.parent_uuid = r.uuid);
