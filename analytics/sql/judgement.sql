-- When all that is measured was last judged. What findings, patterns and the unjudged say is of that moment.
--
-- @column judged_at timestamp: the moment
-- @null nothing was judged yet
SELECT max(as_of) AS judged_at FROM judged;
