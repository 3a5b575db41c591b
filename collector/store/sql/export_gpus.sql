-- Every GPU. No parameters. Columns: the fields of collector.model.Gpu, and installed_from_ms,
-- installed_to_ms (UTC ms; NULL: still there), idle_power_mw. NULL elsewhere: not known.
SELECT
    uuid, node, gpu_index AS "index", model, memory_total_bytes, driver_version, power_limit_mw, parent_uuid,
    mig_profile, share_of_device, persistence_mode, gpu_instance, compute_instance,
    epoch_ms(installed_from) AS installed_from_ms, epoch_ms(installed_to) AS installed_to_ms, idle_power_mw
FROM gpus
ORDER BY node, gpu_index, uuid;
