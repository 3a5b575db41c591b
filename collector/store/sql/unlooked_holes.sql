-- The holes of up to bridged_ms between two intervals of one holder and share, stored or of the registered Arrow table
-- "incoming" (gpu_id, holder_id, share, source, from_ms, to_ms in UTC ms), in which nobody else was given the GPU and no
-- stored minute says what it did: the rule of holds_at. Columns as of "incoming", in its order.
WITH pieces AS (
    SELECT gpu_id, holder_id, share, source, epoch_ms(from_ms) AS from_ts,
        coalesce(epoch_ms(to_ms), TIMESTAMP 'infinity') AS to_ts
    FROM incoming
    UNION ALL
    SELECT gpu_id, holder_id, share, source, from_ts, coalesce(to_ts, TIMESTAMP 'infinity')
    FROM allocations
    WHERE gpu_id IN (SELECT gpu_id FROM incoming)
), spells AS (
    SELECT *, max(to_ts) OVER before AS ended_ts
    FROM pieces
    WINDOW before AS (
        PARTITION BY gpu_id, holder_id, share, source ORDER BY from_ts, to_ts
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
), holes AS (
    SELECT * FROM spells
    WHERE from_ts > ended_ts AND from_ts <= ended_ts + to_milliseconds(CAST($bridged_ms AS BIGINT))
), looked AS (
    SELECT DISTINCT h.gpu_id, h.from_ts
    FROM holes AS h
    JOIN rollup_1m AS m ON m.gpu_id = h.gpu_id AND m.ts >= h.ended_ts AND m.ts < h.from_ts - INTERVAL 1 MINUTE
    WHERE free_ms + allocated_empty_ms + held_idle_ms + low_saturation_ms + moderate_ms + good_ms + suspect_ms
        + withheld_ms > 0
), given AS (
    SELECT DISTINCT h.gpu_id, h.from_ts
    FROM holes AS h
    JOIN pieces AS p ON p.gpu_id = h.gpu_id AND p.from_ts < h.from_ts AND p.to_ts > h.ended_ts
)
SELECT gpu_id, holder_id, share, source, epoch_ms(ended_ts) AS from_ms, epoch_ms(from_ts) AS to_ms
FROM holes
ANTI JOIN looked USING (gpu_id, from_ts)
ANTI JOIN given USING (gpu_id, from_ts);
