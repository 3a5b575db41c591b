-- Adds the nodes of the Arrow table "incoming" (the columns of manager_nodes).
INSERT INTO manager_nodes BY NAME SELECT * FROM incoming;
