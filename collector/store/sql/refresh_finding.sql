-- Brings an open finding up to date. Parameters: finding_id, at_ms, window_from_ms, window_to_ms (UTC ms),
-- coverage (0..1), rung, wasted_gpu_hours (NULL: not known), sentence, evidence (JSON), of_past (whether an import's).
UPDATE findings SET
    last_seen_at = epoch_ms(CAST($at_ms AS BIGINT)),
    window_from = epoch_ms(CAST($window_from_ms AS BIGINT)),
    window_to = epoch_ms(CAST($window_to_ms AS BIGINT)),
    coverage = $coverage,
    rung = $rung,
    wasted_gpu_hours = $wasted_gpu_hours,
    sentence = $sentence,
    evidence = $evidence,
    of_past = $of_past
WHERE finding_id = $finding_id;
