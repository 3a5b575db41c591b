-- Removes a span from the hot table. Parameters: from_ms, to_ms (UTC ms, half-open).
DELETE FROM samples
WHERE ts >= epoch_ms(CAST($from_ms AS BIGINT)) AND ts < epoch_ms(CAST($to_ms AS BIGINT));
