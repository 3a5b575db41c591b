-- Ends the time of what an imported past names no more, as ticks do for what a source leaves out: of a whole node with its
-- last sample, once the source has gone on to name others for so long; of a board a week after its own. What it names again
-- goes on. Where a gap tells that it was not to be seen, nothing is concluded, and MIG instances end with their node alone.
--
-- Parameters: source; node_ms and board_ms (ms): for how long each must have been left out.
UPDATE gpus SET
    unlisted_from = CASE WHEN s.is_left THEN s.ts END,
    installed_to = CASE
        WHEN s.is_left AND s.node_ts <= s.source_ts - to_milliseconds($node_ms) THEN greatest(installed_from, s.ts)
        WHEN s.is_left AND s.parent_uuid IS NULL AND s.ts <= s.source_ts - to_milliseconds($board_ms)
            THEN s.ts + to_milliseconds($board_ms) END
FROM (
    SELECT
        o.*, o.ts <= o.source_ts - to_milliseconds($node_ms) AND NOT EXISTS (
            FROM gaps AS p
            WHERE p.source = $source AND p.to_ts > o.ts + to_milliseconds($node_ms)
                AND (p.gpu_id = o.gpu_id OR (p.gpu_id IS NULL AND (p.node IS NULL OR p.node = o.node)))) AS is_left
    FROM (
        SELECT
            g.gpu_id, g.node, g.parent_uuid, g.source, l.ts,
            max(l.ts) OVER (PARTITION BY coalesce(g.host, g.node), g.cluster) AS node_ts,
            max(l.ts) FILTER (g.source = $source) OVER () AS source_ts
        FROM gpus AS g JOIN (SELECT gpu_id, max(ts) AS ts FROM latest GROUP BY gpu_id) AS l USING (gpu_id)
        WHERE g.cut_of IS NULL
    ) AS o
    WHERE o.source = $source
) AS s
WHERE s.gpu_id = gpus.gpu_id AND (gpus.installed_to < s.ts OR (gpus.installed_to IS NULL AND s.is_left));
