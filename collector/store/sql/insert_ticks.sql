-- Records how sources did at a tick.
--
-- Parameters
--   at_ms                              UTC ms
--   source, duration_ms, gpus, reason  VARCHAR[], DOUBLE[], INTEGER[] and VARCHAR[], one entry a source;
--                                      reason is NULL where it could be read
INSERT INTO ticks (ts, source, duration_ms, gpus, reason)
SELECT
    epoch_ms(CAST($at_ms AS BIGINT)),
    unnest(CAST($source AS VARCHAR[])),
    unnest(CAST($duration_ms AS DOUBLE[])),
    unnest(CAST($gpus AS INTEGER[])),
    unnest(CAST($reason AS VARCHAR[]));
