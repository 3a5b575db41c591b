-- Appends the registered Arrow table "incoming" (columns of the table samples) to the hot table.
INSERT INTO samples BY NAME SELECT * FROM incoming;
