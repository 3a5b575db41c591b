-- Every GPU that was installed in a window, and when; of a device that was cut into MIG instances, these.
--
-- @param from_ts minute: start of the window
-- @param to_ts minute: end of the window, exclusive
-- @column uuid text: the GPU, or the MIG instance
-- @column node text: its machine
-- @column gpu_index integer: its index there
-- @column gpu_place text: what it is called there; of a MIG instance with profile and number (0/1g.10gb#7)
-- @column model text: its model
-- @column memory_total_bytes bigint (bytes): its memory
-- @column part_of_device double (ratio): of a MIG instance, its part of the device's compute
-- @column from_ms bigint (ms): since when
-- @column to_ms bigint (ms): until when
-- @null to_ms: it still is; part_of_device: a whole device; else: not known
SELECT
    g.uuid, g.node, g.gpu_index,
    gpu_place(g.gpu_index, g.uuid, g.parent_uuid, g.mig_profile, g.gpu_instance, g.compute_instance) AS gpu_place,
    g.model, g.memory_total_bytes,
    CASE WHEN g.parent_uuid IS NOT NULL THEN g.share_of_device END AS part_of_device,
    epoch_ms(g.installed_from) AS from_ms, epoch_ms(g.installed_to) AS to_ms
FROM gpus AS g
WHERE g.installed_from < $to_ts AND (g.installed_to IS NULL OR g.installed_to > $from_ts)
    AND NOT EXISTS (
        SELECT 1 FROM gpus AS i
        WHERE i.parent_uuid = coalesce(g.cut_of, g.uuid)
            AND i.installed_from < least($to_ts, g.installed_to)
            AND (i.installed_to IS NULL OR i.installed_to > greatest($from_ts, g.installed_from)))
ORDER BY g.node, g.gpu_index, g.uuid;
