-- The number of a MIG instance, so that two of one profile on one board have names that differ.
ALTER TABLE gpus ADD COLUMN gpu_instance INTEGER;      -- NULL: a whole device, or not known
ALTER TABLE gpus ADD COLUMN compute_instance INTEGER;  -- within its GPU instance; NULL: not known

-- An exporter's instances are kept under the board's UUID and this number.
UPDATE gpus SET gpu_instance = try_cast(split_part(uuid, '/', 2) AS INTEGER)
WHERE parent_uuid IS NOT NULL AND uuid LIKE 'MIG-%/%';

-- What a GPU is called on its node, as collector/gpu_place.py says it: "3", "0/1g.10gb#7", "0/1c.3g.20gb#2.1"; NULL
-- without an index.
CREATE MACRO gpu_place(gpu_index, uuid, parent_uuid, mig_profile, gpu_instance, compute_instance) AS
    CASE
        WHEN parent_uuid IS NULL THEN gpu_index::VARCHAR
        WHEN gpu_instance IS NULL THEN gpu_index || '/' || coalesce(mig_profile, 'MIG') || ' (' || uuid[:12] || ')'
        ELSE gpu_index || '/' || coalesce(mig_profile, 'MIG') || '#' || gpu_instance || CASE
            WHEN compute_instance IS NOT NULL AND regexp_matches(coalesce(mig_profile, ''), '^[0-9]+c[.]')
                THEN '.' || compute_instance ELSE '' END
    END;
