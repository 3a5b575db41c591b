-- Every value there is to filter by.
--
-- @column dimension text: node, project, user or model
-- @column value text: a value of it
-- @null never
SELECT DISTINCT 'node' AS dimension, node AS value FROM gpus
UNION ALL SELECT DISTINCT 'project', project FROM holders WHERE project IS NOT NULL
UNION ALL SELECT DISTINCT 'user', user_name FROM holders WHERE user_name IS NOT NULL
UNION ALL SELECT DISTINCT 'model', model FROM gpus WHERE model IS NOT NULL
ORDER BY dimension, value;
