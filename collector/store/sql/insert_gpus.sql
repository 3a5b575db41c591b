-- Adds the GPUs of the registered Arrow table "incoming" (fields of Gpu, host, source, from_ms in UTC ms).
-- Rows: gpu_id, uuid of each.
INSERT INTO gpus (
    uuid, node, gpu_index, model, memory_total_bytes, driver_version, power_limit_mw, parent_uuid,
    mig_profile, share_of_device, persistence_mode, gpu_instance, compute_instance, cluster, host, source,
    installed_from
)
SELECT
    uuid, node, "index", model, memory_total_bytes, driver_version, power_limit_mw, parent_uuid,
    mig_profile, share_of_device, persistence_mode, gpu_instance, compute_instance, cluster, host, source,
    epoch_ms(from_ms)
FROM incoming
RETURNING gpu_id, uuid;
