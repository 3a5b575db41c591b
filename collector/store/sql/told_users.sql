-- Notes that a source has told the users of these jobs (VARCHAR[] jobs) too, where accounting had before.
UPDATE holders SET user_from = NULL WHERE user_from = 'accounting' AND job IN (SELECT unnest($jobs));
