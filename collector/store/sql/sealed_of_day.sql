-- The recorded files of a day (parameter: day, YYYY-MM-DD). Rows: path, bytes.
SELECT path, bytes FROM sealed WHERE day = CAST($day AS DATE);
