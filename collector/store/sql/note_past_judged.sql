-- Notes by which rules the imported ranges that lie in a span, with all of them or a part, were judged up to its end.
-- Parameters: rules, from_ms, to_ms (UTC ms).
UPDATE imports SET rules = $rules, judged_to = least(to_ts, epoch_ms(CAST($to_ms AS BIGINT)))
WHERE origin LIKE '%://%' AND to_ts > epoch_ms(CAST($from_ms AS BIGINT)) AND from_ts < epoch_ms(CAST($to_ms AS BIGINT));
