-- What was told already of the rows of the registered Arrow table "incoming" (n, kind, gpu_id, holder_id, opened_ms, over_ms),
-- by a service at the time or of an imported past, without a break between. No parameters. Rows: n, finding_id, of_past,
-- opened and closed (UTC ms; NULL: open).
SELECT i.n, f.finding_id, f.of_past, epoch_ms(f.opened_at), epoch_ms(f.closed_at)
FROM incoming AS i
JOIN findings AS f ON f.kind = i.kind AND f.gpu_id = i.gpu_id AND f.holder_id IS NOT DISTINCT FROM i.holder_id
WHERE CASE WHEN f.of_past
    THEN f.opened_at <= epoch_ms(i.over_ms) AND f.closed_at >= epoch_ms(i.opened_ms)
    ELSE f.opened_at < epoch_ms(i.over_ms) AND (f.closed_at IS NULL OR f.closed_at > epoch_ms(i.opened_ms)) END
ORDER BY i.n, f.closed_at;
