-- Every GPU there is: its id, then the fields of collector.model.Gpu in their order. No parameters.
-- NULL: not known.
SELECT
    gpu_id, uuid, node, gpu_index, model, memory_total_bytes, driver_version, power_limit_mw, parent_uuid,
    mig_profile, share_of_device, persistence_mode
FROM gpus;
