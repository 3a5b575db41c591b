-- Ends the open allocations in the registered Arrow table "closing" (gpu_id, holder_id, share, source) at
-- to_ms (UTC ms).
UPDATE allocations SET to_ts = greatest(from_ts, epoch_ms(CAST($to_ms AS BIGINT)))
FROM closing
WHERE allocations.to_ts IS NULL
  AND allocations.gpu_id = closing.gpu_id
  AND allocations.holder_id = closing.holder_id
  AND allocations.share = closing.share
  AND allocations.source = closing.source;
