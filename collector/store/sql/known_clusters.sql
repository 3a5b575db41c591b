-- The cluster of each GPU that was told to be in one. No parameters. Columns: uuid, cluster.
SELECT uuid, cluster FROM gpus WHERE cluster IS NOT NULL AND cut_of IS NULL;
