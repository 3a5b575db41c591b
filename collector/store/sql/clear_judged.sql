-- Forgets when all was last judged. No parameters.
DELETE FROM judged;
