-- Writes down what came of an intent; one that is settled stays as it is. Parameters: number, outcome, found,
-- at_ms (UTC ms). Column: intent, no row when there was nothing to settle.
UPDATE intents SET outcome = $outcome, found = $found, settled_at = epoch_ms(CAST($at_ms AS BIGINT))
WHERE intent = $number AND outcome IS NULL
RETURNING intent;
