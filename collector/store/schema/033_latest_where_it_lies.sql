-- The newest sample of each GPU is read where it lies. Written a second time at every tick, it was a fifth of what
-- a tick costs; nearly all of them are the rows of `samples` at one time, that of the last tick.
--
-- latest_times  the ends of those samples
-- latest_apart  the newest samples of the GPUs that fell behind (lost, or of a source that is slower or silent), and of
--               a past that was told late; copies, because the hot rows are sealed one day
-- A row too many in either does no harm: the view takes the newest of a GPU.
ALTER TABLE latest RENAME TO latest_apart;

CREATE TABLE latest_times (ts TIMESTAMP NOT NULL);

CREATE VIEW latest AS
FROM (
    SELECT
        ts, gpu_id, width_ms, rung, utilization_e4, gpu_utilization_e4, graphics_active_e4, sm_active_e4,
        memory_used_bytes, power_mw, temperature_c, process_count, flags
    FROM samples JOIN latest_times USING (ts)
    UNION ALL BY NAME
    FROM latest_apart
)
QUALIFY row_number() OVER (PARTITION BY gpu_id ORDER BY ts DESC) = 1;
