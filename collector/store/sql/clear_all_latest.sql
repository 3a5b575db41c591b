-- Forgets the newest sample of every GPU: what comes in replaces all of them. No parameters.
TRUNCATE latest;
