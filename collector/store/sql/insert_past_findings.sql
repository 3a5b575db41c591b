-- Adds a finding of an imported past, which is over, unless the same was told while it was so. Parameters: kind, gpu_id,
-- holder_id, opened_ms, seen_ms, over_ms, window_from_ms, window_to_ms (UTC ms), coverage (0..1), rung,
-- wasted_gpu_hours (NULL: not known), sentence, evidence (JSON).
INSERT INTO findings (
    kind, gpu_id, holder_id, opened_at, last_seen_at, closed_at, window_from, window_to, coverage, rung,
    wasted_gpu_hours, sentence, evidence, of_past
)
SELECT
    $kind, $gpu_id, $holder_id, epoch_ms(CAST($opened_ms AS BIGINT)), epoch_ms(CAST($seen_ms AS BIGINT)),
    epoch_ms(CAST($over_ms AS BIGINT)), epoch_ms(CAST($window_from_ms AS BIGINT)), epoch_ms(CAST($window_to_ms AS BIGINT)),
    $coverage, $rung, $wasted_gpu_hours, $sentence, $evidence, true
WHERE NOT EXISTS (
    SELECT 1 FROM findings AS f
    WHERE NOT f.of_past AND f.kind = $kind AND f.gpu_id = $gpu_id AND f.holder_id IS NOT DISTINCT FROM $holder_id
        AND f.opened_at < epoch_ms(CAST($over_ms AS BIGINT))
        AND (f.closed_at IS NULL OR f.closed_at > epoch_ms(CAST($opened_ms AS BIGINT))));
