-- Makes the registered Arrow table "newest" (columns of the table samples, one row a GPU) the newest of its
-- GPUs; clear_latest comes first.
INSERT INTO latest BY NAME SELECT * FROM newest;
