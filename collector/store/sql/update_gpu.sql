-- Writes down what a GPU is now; NULL: not known. Parameters (fields of collector.model.Gpu, host): cluster,
-- compute_instance, driver_version, gpu_instance, host, index, memory_total_bytes, mig_profile, model, node, parent_uuid, persistence_mode,
-- power_limit_mw, share_of_device, uuid.
UPDATE gpus SET
    node = $node,
    gpu_index = $index,
    model = $model,
    memory_total_bytes = $memory_total_bytes,
    driver_version = $driver_version,
    power_limit_mw = $power_limit_mw,
    parent_uuid = $parent_uuid,
    mig_profile = $mig_profile,
    share_of_device = $share_of_device,
    persistence_mode = $persistence_mode,
    gpu_instance = $gpu_instance,
    compute_instance = $compute_instance,
    cluster = $cluster,
    host = $host
WHERE uuid = $uuid;
