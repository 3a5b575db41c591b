-- Adds findings of an imported past, which are over, unless the same was told while it was so: the rows of the registered
-- Arrow table "incoming" (kind, gpu_id, holder_id, opened_ms, seen_ms, over_ms, window_from_ms, window_to_ms (UTC ms),
-- coverage (0..1), rung, wasted_gpu_hours (NULL: not known), sentence, evidence (JSON)). No parameters.
INSERT INTO findings (
    kind, gpu_id, holder_id, opened_at, last_seen_at, closed_at, window_from, window_to, coverage, rung,
    wasted_gpu_hours, sentence, evidence, of_past
)
SELECT
    kind, gpu_id, holder_id, epoch_ms(opened_ms), epoch_ms(seen_ms), epoch_ms(over_ms), epoch_ms(window_from_ms),
    epoch_ms(window_to_ms), coverage, rung, wasted_gpu_hours, sentence, evidence, true
FROM incoming AS i
WHERE NOT EXISTS (
    SELECT 1 FROM findings AS f
    WHERE NOT f.of_past AND f.kind = i.kind AND f.gpu_id = i.gpu_id AND f.holder_id IS NOT DISTINCT FROM i.holder_id
        AND f.opened_at < epoch_ms(i.over_ms) AND (f.closed_at IS NULL OR f.closed_at > epoch_ms(i.opened_ms)));
