-- Forgets a copy, once its object is deleted. Parameter: key.
DELETE FROM archived WHERE "key" = $key;
