-- Forgets the newest sample of the GPUs in the Arrow table "incoming".
DELETE FROM latest WHERE gpu_id IN (SELECT gpu_id FROM incoming);
