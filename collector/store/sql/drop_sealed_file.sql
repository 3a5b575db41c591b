-- Forgets one sealed file. Parameter: path.
DELETE FROM sealed WHERE path = $path;
