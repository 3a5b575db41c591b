-- Under the coverage that a judgement needs, a pattern is "unknown", and the reason is kept; NULL: it is not unknown.
ALTER TABLE patterns ADD COLUMN reason VARCHAR;
