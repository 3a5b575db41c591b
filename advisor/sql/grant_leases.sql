-- Open a lease a (job, GPU).
--
-- Reads the table `granting`: lease_id, gpu_uuid, job, user_name, project, job_name, kind, share, at_ms.
INSERT INTO leases
SELECT lease_id, gpu_uuid, job, user_name, project, job_name, kind, share, make_timestamp_ms(at_ms), NULL
FROM granting;
