-- Forgets when the newest samples ended; insert_latest_times comes next. No parameters.
DELETE FROM latest_times;
