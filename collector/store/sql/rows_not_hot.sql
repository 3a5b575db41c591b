-- How many rows of a Parquet file (parameter: path) the hot table does not have.
SELECT count(*)
FROM read_parquet($path, hive_partitioning = false) AS file
ANTI JOIN samples USING (gpu_id, ts);
