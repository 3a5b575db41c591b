-- The number that the next intent gets: above every intent and every directive ever kept. No parameters.
-- Column: number.
SELECT 1 + greatest(
    (SELECT coalesce(max(intent), 0) FROM intents),
    (SELECT coalesce(max(number), 0) FROM directives)
) AS number;
