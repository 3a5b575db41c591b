-- Lets the allocations in the registered Arrow table "opening" (gpu_id, holder_id, share, source) go on that ended
-- just at from_ms (UTC ms), as a past that was filled in up to there leaves them; or that ended with the newest sample
-- of their GPU before it, no longer ago than that sample's width: a source that is read each minute says nothing of
-- the seconds in between. Rows: none.
UPDATE allocations SET to_ts = NULL
FROM (
    SELECT o.gpu_id, o.holder_id, o.share, o.source, max(a.to_ts) AS to_ts
    FROM opening AS o
    JOIN allocations AS a ON a.gpu_id = o.gpu_id AND a.holder_id = o.holder_id AND a.share = o.share
        AND a.source = o.source AND a.to_ts <= epoch_ms(CAST($from_ms AS BIGINT))
        AND a.to_ts >= epoch_ms(CAST($from_ms AS BIGINT)) - INTERVAL 10 MINUTE
    LEFT JOIN (
        SELECT gpu_id, max(ts) AS ts, arg_max(width_ms, ts) AS width_ms FROM samples
        WHERE ts <= epoch_ms(CAST($from_ms AS BIGINT))
            AND ts >= epoch_ms(CAST($from_ms AS BIGINT)) - INTERVAL 10 MINUTE
        GROUP BY gpu_id
    ) AS s ON s.gpu_id = o.gpu_id
    WHERE a.to_ts = epoch_ms(CAST($from_ms AS BIGINT))
        OR (a.to_ts >= s.ts AND a.to_ts >= epoch_ms(CAST($from_ms AS BIGINT)) - to_milliseconds(s.width_ms))
    GROUP BY ALL
) AS last_ones
WHERE allocations.to_ts = last_ones.to_ts
  AND allocations.gpu_id = last_ones.gpu_id
  AND allocations.holder_id = last_ones.holder_id
  AND allocations.share = last_ones.share
  AND allocations.source = last_ones.source;
