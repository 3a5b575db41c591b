-- The number that the next intent gets: above every intent and every directive ever kept, and above
-- what launchers know from before an older backup was put back. Parameter: above.
-- Column: number.
SELECT 1 + greatest(
    (SELECT coalesce(max(intent), 0) FROM intents),
    (SELECT coalesce(max(number), 0) FROM directives),
    CAST($above AS BIGINT)
) AS number;
