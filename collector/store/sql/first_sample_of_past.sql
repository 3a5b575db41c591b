-- The first sample of a span, and since when all samples are kept. Parameters: from_ms, to_ms (UTC ms). Columns: first_ms (UTC ms;
-- NULL: none), kept_ms (UTC ms; NULL: none has been let go of).
SELECT epoch_ms(min(ts)), (SELECT epoch_ms(complete_to) FROM watermarks WHERE name = 'samples_kept')
FROM samples_all
WHERE ts > epoch_ms(CAST($from_ms AS BIGINT)) AND ts <= epoch_ms(CAST($to_ms AS BIGINT));
