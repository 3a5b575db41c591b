-- The time of each GPU's newest sample, UTC ms. No parameters.
SELECT gpu_id, epoch_ms(ts) FROM latest;
