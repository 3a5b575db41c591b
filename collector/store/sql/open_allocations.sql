-- Begins the allocations in the registered Arrow table "opening" (gpu_id, holder_id, share, source) at
-- from_ms (UTC ms), but for those that are open.
INSERT INTO allocations (gpu_id, holder_id, share, from_ts, to_ts, source)
SELECT gpu_id, holder_id, share, epoch_ms(CAST($from_ms AS BIGINT)), NULL, source
FROM opening
ANTI JOIN (SELECT gpu_id, holder_id, share, source FROM allocations WHERE to_ts IS NULL) AS known
    USING (gpu_id, holder_id, share, source);
