-- Ends what was believed of holders while their node was silent: of the GPUs of the registered Arrow table "told"
-- (gpu_id, from_ms in UTC ms), what lasts beyond from_ms. No parameters.
UPDATE allocations SET to_ts = epoch_ms(told.from_ms)
FROM told
WHERE allocations.gpu_id = told.gpu_id AND allocations.from_ts < epoch_ms(told.from_ms)
  AND coalesce(allocations.to_ts, TIMESTAMP 'infinity') > epoch_ms(told.from_ms);
