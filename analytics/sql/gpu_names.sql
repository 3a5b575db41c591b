-- What people call each GPU that was installed in a window, those too that are gone or were cut anew.
--
-- @param from_ts instant: start of the window
-- @param to_ts instant: end of the window, exclusive
-- @column uuid text: the GPU, the MIG instance, or what a board was before it was cut anew
-- @column node text: its machine
-- @column gpu_place text: what it is called there; of a MIG instance with profile and number (0/1g.10gb#7)
-- @column to_ts timestamp: until when it was installed
-- @never_null uuid
-- @null to_ts: it still is; else: not known
SELECT
    uuid, node, gpu_place(gpu_index, uuid, parent_uuid, mig_profile, gpu_instance, compute_instance) AS gpu_place,
    installed_to AS to_ts
FROM gpus
WHERE installed_from < $to_ts AND (installed_to IS NULL OR installed_to > $from_ts)
ORDER BY node, gpu_index, uuid;
