-- Notes by which rules the imported ranges that end within a span were judged. Parameters: rules, from_ms, to_ms (UTC ms).
UPDATE imports SET rules = $rules
WHERE origin LIKE '%://%' AND to_ts > epoch_ms(CAST($from_ms AS BIGINT)) AND to_ts <= epoch_ms(CAST($to_ms AS BIGINT));
