-- The leases in force, the oldest first.
--
-- @column job text: whose
-- @column gpu text: the GPU
-- @column share double (fraction): how much of it
-- @column since_ms bigint (ms): since when
SELECT job, gpu_uuid AS gpu, share, epoch_ms(granted_at) AS since_ms
FROM leases
WHERE released_at IS NULL
ORDER BY granted_at, job, gpu_uuid;
