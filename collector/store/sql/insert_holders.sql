-- Adds the holders of the registered Arrow table "incoming" (fields of Holder, at_ms in UTC ms).
-- Rows: holder_id, job of each.
INSERT INTO holders (job, user_name, project, job_name, kind, framework, command, first_seen, last_seen)
SELECT job, "user", project, name, kind, framework, command, epoch_ms(at_ms), epoch_ms(at_ms)
FROM incoming
RETURNING holder_id, job;
