-- Adds findings of an imported past, which are over: the rows of the registered Arrow table "incoming" (n, kind, gpu_id,
-- holder_id, opened_ms, seen_ms, over_ms, window_from_ms, window_to_ms (UTC ms), coverage (0..1), rung, wasted_gpu_hours
-- (NULL: not known), sentence, evidence (JSON)) of these numbers. Parameters: ns (INTEGER[]), opened_ms (BIGINT[], UTC ms).
INSERT INTO findings (
    kind, gpu_id, holder_id, opened_at, last_seen_at, closed_at, window_from, window_to, coverage, rung,
    wasted_gpu_hours, sentence, evidence, of_past
)
SELECT
    kind, gpu_id, holder_id, epoch_ms(o.opened_ms), epoch_ms(seen_ms), epoch_ms(over_ms), epoch_ms(window_from_ms),
    epoch_ms(window_to_ms), coverage, rung, wasted_gpu_hours, sentence, evidence, true
FROM incoming AS i
JOIN (SELECT unnest(CAST($ns AS INTEGER[])) AS n, unnest(CAST($opened_ms AS BIGINT[])) AS opened_ms) AS o USING (n);
