-- Write down which directives were acknowledged, and why one did not work.
--
-- Reads the table `acknowledged`: job, handled, at_ms, failed (NULL: it worked).
UPDATE directives SET
    handled_at = make_timestamp_ms(a.at_ms),
    failed = CASE WHEN directives.number = a.handled THEN a.failed END
FROM acknowledged AS a
WHERE directives.job = a.job AND directives.number <= a.handled AND directives.handled_at IS NULL;
