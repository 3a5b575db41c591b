-- Lets the allocations in the registered Arrow table "opening" (gpu_id, holder_id, share, source) go on that ended
-- just at from_ms (UTC ms), as a past that was filled in up to there leaves them. Rows: none.
UPDATE allocations SET to_ts = NULL
FROM opening
WHERE allocations.to_ts = epoch_ms(CAST($from_ms AS BIGINT))
  AND allocations.gpu_id = opening.gpu_id
  AND allocations.holder_id = opening.holder_id
  AND allocations.share = opening.share
  AND allocations.source = opening.source;
