-- Every installed GPU at an instant, as a decision looks at it: what it is, what is on it, what an hour costs.
--
-- @param as_of instant: the instant
-- @column uuid text: the GPU, or the MIG instance
-- @column node text: its machine
-- @column gpu_index integer: its index there
-- @column gpu_place text: what it is called there; of a MIG instance with profile and number (0/1g.10gb#7)
-- @column model text: its model
-- @column memory_total_bytes bigint (bytes): its memory
-- @column part_of_device double (ratio): of a MIG instance, its part of the device's compute
-- @column mig_profile text: of a MIG instance, what its driver calls its size (3g.40gb)
-- @column cluster text: that of its machine, as its labels have it
-- @column is_parent boolean: it is cut into MIG instances that are installed themselves
-- @column newest_ms bigint (ms): its newest sample within ten minutes
-- @column memory_used_bytes bigint (bytes): used then
-- @column is_busy boolean: it did something then
-- @column is_taken boolean: it did something then, or a process was on it, or memory above its idle floor
-- @column per_gpu_hour double (currency): the price of an hour
-- @column currency text: of the price
-- @null newest_ms, memory_used_bytes, is_busy: not measured; is_taken: not measured, or withheld from everybody; part_of_device: a whole device; mig_profile: that too, or not known; cluster: nobody told; prices: none
--   is configured
WITH newest AS (
    SELECT
        gpu_id, max(ts) AS ts, arg_max(memory_used_bytes, ts) AS memory_used_bytes,
        arg_max(process_count, ts) AS process_count,
        arg_max(busiest_of(utilization_e4, gpu_utilization_e4, graphics_active_e4, sm_active_e4,
            greatest(encoder_e4, decoder_e4, jpeg_e4, ofa_e4)), ts) AS busiest_e4
    FROM samples_all
    WHERE ts > $as_of - INTERVAL 10 MINUTE AND ts <= $as_of
    GROUP BY gpu_id
)
SELECT
    g.uuid, g.node, g.gpu_index,
    gpu_place(g.gpu_index, g.uuid, g.parent_uuid, g.mig_profile, g.gpu_instance, g.compute_instance) AS gpu_place,
    g.model, g.memory_total_bytes,
    CASE WHEN g.parent_uuid IS NOT NULL THEN g.share_of_device END AS part_of_device, g.mig_profile, g.cluster,
    EXISTS (
        SELECT 1 FROM gpus AS i
        WHERE i.parent_uuid = coalesce(g.cut_of, g.uuid) AND i.installed_from <= $as_of
            AND (i.installed_to IS NULL OR i.installed_to > $as_of)) AS is_parent,
    epoch_ms(n.ts) AS newest_ms, n.memory_used_bytes, n.busiest_e4 > 100 AS is_busy,
    CASE WHEN w.gpu_id IS NULL THEN coalesce(n.busiest_e4 > 100, false) OR process_is_present(
        n.process_count, n.memory_used_bytes, g.memory_total_bytes, g.memory_free_bytes, n.busiest_e4) END AS is_taken,
    p.per_gpu_hour, p.currency
FROM gpus AS g
JOIN gpu_prices AS p USING (gpu_id)
LEFT JOIN newest AS n USING (gpu_id)
LEFT JOIN (
    SELECT DISTINCT gpu_id FROM withheld WHERE from_ts <= $as_of AND (to_ts IS NULL OR to_ts > $as_of)
) AS w ON w.gpu_id = g.gpu_id
WHERE g.installed_from <= $as_of AND (g.installed_to IS NULL OR g.installed_to > $as_of)
ORDER BY g.node, g.gpu_index, g.uuid;
