-- How many hours of GPUs are rolled up in a span. Parameters: from_ms, to_ms (UTC ms: beginning in [from_ms, to_ms)).
SELECT count(*) FROM rollup_1h
WHERE ts >= epoch_ms(CAST($from_ms AS BIGINT)) AND ts < epoch_ms(CAST($to_ms AS BIGINT));
