-- Imported ranges of measurements (their origins are addresses; those of accounting are none), and up to when these rules
-- judged each. Parameter: rules. Rows: start, end, judged until (its start: not at all), UTC ms.
SELECT
    epoch_ms(from_ts), epoch_ms(to_ts),
    epoch_ms(CASE WHEN rules = $rules THEN least(to_ts, coalesce(judged_to, from_ts)) ELSE from_ts END)
FROM imports
WHERE origin LIKE '%://%'
ORDER BY from_ts, to_ts;
