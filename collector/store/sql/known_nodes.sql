-- What nodes are called, one each. No parameters.
SELECT DISTINCT node FROM gpus;
