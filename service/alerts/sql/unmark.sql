-- Forgets since when something was watched: it is switched off. Parameter: watched.
DELETE FROM alert_marks WHERE name = $watched;
