-- Whether the GPUs that are shown are real or simulated; no row before the first.
--
-- @column origin text: real, or simulated: then GPUs, people and jobs are invented
-- @column since timestamp: when the store took its first GPU
-- @null never
SELECT origin, since FROM origin;
