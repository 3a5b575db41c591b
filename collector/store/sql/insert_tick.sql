-- Records how a source did at a tick. Parameters: at_ms (UTC ms), source, duration_ms, gpus, reason (NULL:
-- it could be read).
INSERT INTO ticks VALUES (epoch_ms(CAST($at_ms AS BIGINT)), $source, $duration_ms, $gpus, $reason);
