-- Imported ranges of measurements (their origins are addresses; those of accounting are none) that were never judged, or by
-- other rules. Parameter: rules. Rows: start and end, UTC ms.
SELECT epoch_ms(from_ts), epoch_ms(to_ts) FROM imports
WHERE origin LIKE '%://%' AND rules IS DISTINCT FROM $rules
ORDER BY from_ts, to_ts;
