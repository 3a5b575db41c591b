-- What each holder of a shared GPU did, where a source tells that without telling of single processes: an exporter
-- that knows which pod each process belongs to. The width_ms that end at ts; NULL: not told.
CREATE TABLE holder_samples (
    ts TIMESTAMP NOT NULL,
    gpu_id INTEGER NOT NULL,
    holder_id INTEGER NOT NULL,
    width_ms INTEGER NOT NULL,
    gpu_utilization_e4 SMALLINT,
    memory_used_bytes BIGINT
);
