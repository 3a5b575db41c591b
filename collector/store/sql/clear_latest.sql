-- Forgets the newest sample of the GPUs in the registered Arrow table "newest".
DELETE FROM latest WHERE gpu_id IN (SELECT gpu_id FROM newest);
