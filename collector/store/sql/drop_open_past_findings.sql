-- Forgets what an import found at the end of its records, where no service has found it since. No parameters.
DELETE FROM findings WHERE of_past AND closed_at IS NULL;
