-- How far each level of the store is complete; the loader hands it to the queries that need it.
--
-- @column name text: rollup_1m, rollup_1h or rollup_1d; samples_kept, minutes_kept
-- @column complete_to timestamp: rows before it are final; of what is kept: rows before it went
-- @null never
SELECT name, complete_to FROM watermarks ORDER BY name;
