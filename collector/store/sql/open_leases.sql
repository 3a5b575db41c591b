-- The leases in force. No parameters. Columns: lease_id, gpu_uuid, job, user_name, project, job_name, kind,
-- share (0..1), granted_ms (UTC ms). NULL: not known.
SELECT lease_id, gpu_uuid, job, user_name, project, job_name, kind, share, epoch_ms(granted_at) AS granted_ms
FROM leases
WHERE released_at IS NULL
ORDER BY granted_at, lease_id;
