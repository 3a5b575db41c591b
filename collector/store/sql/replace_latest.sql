-- Makes the Arrow table "incoming" (columns of the table latest, one row a GPU) the newest of its
-- GPUs; clear_latest comes first.
INSERT INTO latest BY NAME SELECT * FROM incoming;
