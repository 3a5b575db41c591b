-- The first day whose samples the retention keeps. No parameters. A row: YYYY-MM-DD; none before the first time.
SELECT strftime(complete_to, '%Y-%m-%d') FROM watermarks WHERE name = 'samples_kept';
