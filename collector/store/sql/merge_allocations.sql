-- Makes the temporary table merged_allocations: the intervals of the registered Arrow table "incoming"
-- (gpu_id, holder_id, share, source, from_ms, to_ms in UTC ms) and those stored that touch or overlap them,
-- joined into the fewest intervals. to_ts NULL: still held. What is held now goes on from what was told of the past up
-- to gap_ms before it began: the width of the newest sample of that past.
CREATE OR REPLACE TEMP TABLE merged_allocations AS
WITH pieces AS (
    SELECT gpu_id, holder_id, share, source, epoch_ms(from_ms) AS from_ts,
        coalesce(epoch_ms(to_ms), TIMESTAMP 'infinity') AS to_ts
    FROM incoming
    UNION ALL
    SELECT gpu_id, holder_id, share, source, from_ts, coalesce(to_ts, TIMESTAMP 'infinity')
    FROM allocations
    SEMI JOIN incoming USING (gpu_id, holder_id, share, source)
),
marked AS (
    SELECT *, coalesce(from_ts > max(to_ts) OVER before
        + to_milliseconds(CASE WHEN isfinite(to_ts) THEN 0 ELSE CAST($gap_ms AS BIGINT) END), true) AS begins
    FROM pieces
    WINDOW before AS (
        PARTITION BY gpu_id, holder_id, share, source ORDER BY from_ts, to_ts
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
),
numbered AS (
    SELECT *, sum(CAST(begins AS INTEGER)) OVER (
        PARTITION BY gpu_id, holder_id, share, source ORDER BY from_ts, to_ts ROWS UNBOUNDED PRECEDING
    ) AS island
    FROM marked
)
SELECT gpu_id, holder_id, share, source, min(from_ts) AS from_ts,
    CASE WHEN isfinite(max(to_ts)) THEN max(to_ts) END AS to_ts
FROM numbered
GROUP BY gpu_id, holder_id, share, source, island
ORDER BY from_ts, gpu_id;
