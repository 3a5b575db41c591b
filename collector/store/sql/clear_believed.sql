-- Removes what was believed of holders while their node was silent: of the GPUs of the registered Arrow table "told"
-- (gpu_id, from_ms in UTC ms), what began at from_ms or later. No parameters.
DELETE FROM allocations USING told
WHERE allocations.gpu_id = told.gpu_id AND allocations.from_ts >= epoch_ms(told.from_ms);
