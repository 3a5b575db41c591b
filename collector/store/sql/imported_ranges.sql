-- The ranges of an origin that are imported. Parameter: origin. Rows: start and end, UTC ms.
SELECT epoch_ms(from_ts), epoch_ms(to_ts) FROM imports WHERE origin = $origin ORDER BY from_ts, to_ts;
