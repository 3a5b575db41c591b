-- Forgets the files of a day (parameter: day, YYYY-MM-DD), because a newer one takes their place.
DELETE FROM sealed WHERE day = CAST($day AS DATE);
