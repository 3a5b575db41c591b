-- Whose a job is by a workload manager's accounting, where no source that measured it told (docs/decisions/0132).
--
-- user_from, project_from   accounting: user_name, project are from there; NULL: a source told, or nobody knows
ALTER TABLE holders ADD COLUMN user_from VARCHAR;
ALTER TABLE holders ADD COLUMN project_from VARCHAR;
