-- As before, and the same rows: where nobody came back within a day, no minute is read. That the minutes were also bounded by
-- the first and the last break had DuckDB read all of them before it knew that there was none (docs/decisions/0160).
CREATE OR REPLACE MACRO holds_at(at_ts) AS TABLE
WITH held_now AS (
    SELECT a.gpu_id, a.holder_id, sum(a.share) AS share
    FROM allocations AS a
    LEFT JOIN latest AS l ON l.gpu_id = a.gpu_id AND l.ts <= at_ts
        AND l.ts >= at_ts - to_milliseconds(2 * greatest(l.width_ms, 10000))
    WHERE a.from_ts <= at_ts AND (a.to_ts IS NULL OR a.to_ts > at_ts
        OR (a.to_ts >= l.ts AND a.to_ts <= l.ts + to_milliseconds(l.width_ms)))
    GROUP BY ALL
), spells AS (
    SELECT a.gpu_id, a.holder_id, a.from_ts, max(coalesce(a.to_ts, at_ts)) OVER earlier AS ended_ts
    FROM allocations AS a
    SEMI JOIN held_now AS n ON n.gpu_id = a.gpu_id AND n.holder_id = a.holder_id
    WHERE a.from_ts <= at_ts
    WINDOW earlier AS (
        PARTITION BY a.gpu_id, a.holder_id ORDER BY a.from_ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
), breaks AS (
    SELECT * FROM spells WHERE from_ts - ended_ts > INTERVAL 10 MINUTE AND from_ts - ended_ts <= INTERVAL 1 DAY
), looked AS (
    SELECT DISTINCT b.gpu_id, b.holder_id, b.from_ts
    FROM breaks AS b
    JOIN (
        SELECT gpu_id, ts AS since_ts, ts + INTERVAL 1 MINUTE AS until_ts FROM rollup_1m
        WHERE gpu_id IN (SELECT gpu_id FROM breaks) AND free_ms + allocated_empty_ms + held_idle_ms
            + low_saturation_ms + moderate_ms + good_ms + suspect_ms + withheld_ms > 0
        UNION ALL
        SELECT gpu_id, from_ts, coalesce(to_ts, at_ts) FROM allocations WHERE gpu_id IN (SELECT gpu_id FROM breaks)
    ) AS s ON s.gpu_id = b.gpu_id AND s.until_ts > b.ended_ts + INTERVAL 1 MINUTE
        AND s.since_ts < b.from_ts - INTERVAL 1 MINUTE
), began AS (
    SELECT s.gpu_id, s.holder_id, max(s.from_ts) AS from_ts
    FROM spells AS s
    LEFT JOIN looked AS k ON k.gpu_id = s.gpu_id AND k.holder_id = s.holder_id AND k.from_ts = s.from_ts
    WHERE s.ended_ts IS NULL OR s.from_ts - s.ended_ts > INTERVAL 1 DAY OR k.from_ts IS NOT NULL
    GROUP BY ALL
)
SELECT n.gpu_id, n.holder_id, n.share, b.from_ts
FROM held_now AS n JOIN began AS b USING (gpu_id, holder_id);
