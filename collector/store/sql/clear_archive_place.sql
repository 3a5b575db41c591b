-- Forgets where archived days are: another place follows in the same transaction. No parameters.
DELETE FROM archive_place;
