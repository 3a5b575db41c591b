-- The limit that a job waits for, with its number and what is used of it (docs/decisions/0129).
--
-- limit_met   a JSON object: name, user, what, most, used, or unseen: why the number isn't known; NULL: it waits for none
ALTER TABLE manager_jobs ADD COLUMN limit_met VARCHAR;
