-- The number that the next intent gets: above every intent and every directive ever kept, and above those that
-- launchers have shown to be this service's, which an older backup does not know. Parameter: above.
-- Numbers beyond 2^50 were lifted by launchers' words, once; they are gone on from only as long as `above` says that
-- a job lives that was given one (advisor/jobs/command_numbers.py).
-- Column: number.
SELECT 1 + greatest(
    (SELECT coalesce(max(intent), 0) FROM intents
    WHERE intent < 1125899906842624 OR CAST($above AS BIGINT) >= 1125899906842624),
    (SELECT coalesce(max(number), 0) FROM directives
    WHERE number < 1125899906842624 OR CAST($above AS BIGINT) >= 1125899906842624),
    CAST($above AS BIGINT)
) AS number;
