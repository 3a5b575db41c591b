-- Lets go of directives that no launcher fetched, of jobs that are not kept any more; the newest stays, because numbers go
-- on from it. Parameter: before_ms (UTC ms).
DELETE FROM directives
WHERE given_at < epoch_ms(CAST($before_ms AS BIGINT)) AND job NOT IN (SELECT job FROM entries)
    AND number < (SELECT max(number) FROM directives);
