-- The intervals of jobs that wait still, whole.
SELECT * FROM manager_waits WHERE to_ts IS NULL;
