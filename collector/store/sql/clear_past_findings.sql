-- Forgets what was found afterwards and over within a span, to be judged again. Parameters: from_ms, to_ms (UTC ms).
DELETE FROM findings
WHERE of_past AND closed_at > epoch_ms(CAST($from_ms AS BIGINT)) AND closed_at <= epoch_ms(CAST($to_ms AS BIGINT));
