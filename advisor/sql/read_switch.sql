-- A switch. Parameter: name. Columns: is_on, set_ms (UTC ms), by_user, because; no row: never set.
SELECT is_on, epoch_ms(set_at) AS set_ms, by_user, because FROM switches WHERE name = $name;
