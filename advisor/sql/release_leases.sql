-- Close leases whose GPU the job let go, or whose share has changed.
--
-- Reads the table `releasing`: job, gpu_uuid, at_ms.
UPDATE leases SET released_at = make_timestamp_ms(r.at_ms)
FROM releasing AS r
WHERE leases.job = r.job AND leases.gpu_uuid = r.gpu_uuid AND leases.released_at IS NULL;
