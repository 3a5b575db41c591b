-- Adds the reservations of the Arrow table "incoming" (the columns of manager_reservations).
INSERT INTO manager_reservations BY NAME SELECT * FROM incoming;
