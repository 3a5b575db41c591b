-- The limit that kept a job waiting, with its number, of the past too.
--
-- limit_met   a JSON object as in manager_jobs, without what was used of it; NULL: no limit, or its number wasn't known
ALTER TABLE manager_waits ADD COLUMN limit_met VARCHAR;
