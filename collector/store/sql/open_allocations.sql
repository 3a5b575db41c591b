-- Begins the allocations in the registered Arrow table "opening" (gpu_id, holder_id, share, source) at
-- from_ms (UTC ms).
INSERT INTO allocations (gpu_id, holder_id, share, from_ts, to_ts, source)
SELECT gpu_id, holder_id, share, epoch_ms(CAST($from_ms AS BIGINT)), NULL, source
FROM opening;
