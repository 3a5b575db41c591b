-- How far each level of the store is complete; the loader hands it to the queries that need it.
--
-- @column name text: rollup_1m, rollup_1h or sealed
-- @column complete_to timestamp: rows before it are final
-- @null never
SELECT name, complete_to FROM watermarks ORDER BY name;
