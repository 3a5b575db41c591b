-- Adds the runs of the Arrow table "incoming" (the columns of manager_jobs).
INSERT INTO manager_jobs BY NAME SELECT * FROM incoming;
