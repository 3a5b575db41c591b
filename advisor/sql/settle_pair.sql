-- What came of a pair. Parameters: host, guest, host_speed, guest_speed (NULL: not measured), windows, undone.
UPDATE pairs
SET host_speed = $host_speed, guest_speed = $guest_speed, windows = $windows, undone = $undone
WHERE host = $host AND guest = $guest;
