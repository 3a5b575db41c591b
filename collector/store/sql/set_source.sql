-- Notes which source names some GPUs now. Parameters: uuids, source.
UPDATE gpus SET source = $source WHERE uuid IN (SELECT unnest($uuids));
