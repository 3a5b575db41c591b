-- Forgets the copies of the GPUs in the Arrow table "incoming" (gpu_id): they are measured again.
DELETE FROM latest_apart WHERE gpu_id IN (SELECT gpu_id FROM incoming);
