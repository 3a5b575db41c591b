-- The starts of this head that are kept, the newest first. No parameters.
SELECT start, epoch, word, superseded FROM head_terms ORDER BY start DESC;
