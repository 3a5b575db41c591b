-- Whether the store holds real GPUs or simulated ones. No parameters. No row: it has held no GPU yet.
SELECT origin FROM origin;
