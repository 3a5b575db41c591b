-- Every GPU there is: its id, since when it is installed (UTC ms), then the fields of collector.model.Gpu in their
-- order: as node what the machine itself is called. No parameters.
-- NULL: not known.
SELECT
    gpu_id, epoch_ms(installed_from), uuid, coalesce(host, node), gpu_index, model, memory_total_bytes, driver_version,
    power_limit_mw, parent_uuid, mig_profile, share_of_device, persistence_mode, gpu_instance, compute_instance,
    cluster
FROM gpus;
