-- Forgets the newest sample of GPUs that have a newer one in the registered Arrow table "incoming".
DELETE FROM latest USING (SELECT gpu_id, max(ts) AS ts FROM incoming GROUP BY gpu_id) AS newest
WHERE newest.gpu_id = latest.gpu_id AND newest.ts > latest.ts;
