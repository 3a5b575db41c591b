-- The GPUs (gpu_id) of the registered Arrow table "told" (gpu_id, from_ms in UTC ms) that were given out since from_ms
-- by those whom the head itself asks: leases, Slurm and Ray. No parameters.
SELECT DISTINCT told.gpu_id
FROM told JOIN allocations AS a USING (gpu_id)
WHERE a.source IN ('lease', 'slurm', 'ray') AND coalesce(a.to_ts, TIMESTAMP 'infinity') > epoch_ms(told.from_ms);
