-- The number of the newest entry; 0 without any.
--
-- @column number bigint: the number
SELECT coalesce(max(number), 0) AS number FROM entries;
