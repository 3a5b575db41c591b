-- Each source's newest tick: whether it could be read, and how long that took.
--
-- @column source text: its name
-- @column last_ts timestamp: when it was last tried
-- @column last_duration_ms double (ms): how long that took
-- @column gpus integer (GPUs): how many it saw
-- @column reason text: why it could not be read
-- @null reason: it could be read
SELECT
    source, max(ts) AS last_ts, arg_max(duration_ms, ts) AS last_duration_ms, arg_max(gpus, ts) AS gpus,
    nullif(arg_max(coalesce(reason, ''), ts), '') AS reason
FROM ticks
GROUP BY source
ORDER BY source;
