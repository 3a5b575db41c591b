-- Opens the intervals of the Arrow table "incoming" (the columns of manager_waits but to_ts).
INSERT INTO manager_waits BY NAME SELECT * FROM incoming;
