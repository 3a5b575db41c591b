-- Adds a finding. Parameters: kind, gpu_id, holder_id, at_ms, window_from_ms, window_to_ms (UTC ms), coverage
-- (0..1), rung, wasted_gpu_hours (NULL: not known), sentence, evidence (JSON), of_past (whether an import's).
INSERT INTO findings (
    kind, gpu_id, holder_id, opened_at, last_seen_at, window_from, window_to, coverage, rung,
    wasted_gpu_hours, sentence, evidence, of_past
)
VALUES (
    $kind, $gpu_id, $holder_id, epoch_ms(CAST($at_ms AS BIGINT)), epoch_ms(CAST($at_ms AS BIGINT)),
    epoch_ms(CAST($window_from_ms AS BIGINT)), epoch_ms(CAST($window_to_ms AS BIGINT)), $coverage, $rung,
    $wasted_gpu_hours, $sentence, $evidence, $of_past
);
