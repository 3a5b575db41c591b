-- An imported past is judged a piece at a time, and a stop loses none that is done (docs/decisions/0158).
--
-- imports.judged_to   up to when the range was judged by its rules; its end: whole; NULL: not yet
ALTER TABLE imports ADD COLUMN judged_to TIMESTAMP;
UPDATE imports SET judged_to = to_ts WHERE rules IS NOT NULL;
