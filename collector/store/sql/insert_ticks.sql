-- Records how sources did at a tick: the Arrow table "incoming" with at_ms (UTC ms), source, duration_ms,
-- gpus, reason (NULL: it could be read).
INSERT INTO ticks (ts, source, duration_ms, gpus, reason)
SELECT epoch_ms(at_ms), source, duration_ms, gpus, reason FROM incoming;
