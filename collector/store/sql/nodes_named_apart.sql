-- The names of machines that are called by their cluster as well, one each. No parameters.
SELECT DISTINCT host FROM gpus WHERE host IS NOT NULL;
