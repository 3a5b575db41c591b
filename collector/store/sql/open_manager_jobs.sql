-- The runs that are not over, whole, as insert_manager_jobs takes them.
SELECT * FROM manager_jobs WHERE state <> 'ended';
