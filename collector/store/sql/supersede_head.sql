-- This is not the head any more; the first reason stays. Parameters: superseded.
UPDATE head_terms SET superseded = $superseded
WHERE start = (SELECT max(start) FROM head_terms) AND superseded IS NULL;
