-- Copies the newest samples of the GPUs in the Arrow table "incoming" (gpu_id), which fell behind. Before the times
-- are written anew.
INSERT INTO latest_apart BY NAME
SELECT latest.*
FROM latest
SEMI JOIN incoming USING (gpu_id)
ANTI JOIN latest_apart USING (gpu_id, ts);
