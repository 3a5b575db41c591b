-- The GPUs whose newest sample is a copy; older copies may be there as well. No parameters.
SELECT gpu_id FROM latest_apart JOIN latest USING (gpu_id, ts);
