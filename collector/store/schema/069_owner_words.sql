-- What a job's owner allows in its comment (fallow:pause), as it was written; empty: nothing is said to us.
ALTER TABLE manager_jobs ADD COLUMN word VARCHAR DEFAULT '';
