-- Starts of this head before the newest thousand. No parameters.
DELETE FROM head_terms WHERE start <= (SELECT max(start) FROM head_terms) - 1000;
