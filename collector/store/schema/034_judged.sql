-- When all that is measured was last judged: without it, no finding and nothing judged yet look the same, and what was
-- found before a stop looks like what is so now. One row at most.
CREATE TABLE judged (as_of TIMESTAMP NOT NULL);

INSERT INTO judged
SELECT max(as_of) FROM (SELECT as_of FROM patterns UNION ALL SELECT as_of FROM unjudged) HAVING max(as_of) IS NOT NULL;
