-- Telemetry: who was given which GPU, what the GPU did, and what is kept ready for the screens.
-- Timestamps are UTC. NULL is "not measured", 0 a measured zero. Columns named _e4 hold a ratio times 10,000.

CREATE SEQUENCE gpu_ids;
CREATE SEQUENCE holder_ids;
CREATE SEQUENCE process_ids;
CREATE SEQUENCE finding_ids;

CREATE TABLE gpus (
    gpu_id INTEGER PRIMARY KEY DEFAULT nextval('gpu_ids'),
    uuid VARCHAR NOT NULL UNIQUE,
    node VARCHAR NOT NULL,
    gpu_index INTEGER,
    model VARCHAR,
    memory_total_bytes BIGINT,
    driver_version VARCHAR,
    power_limit_mw INTEGER,
    parent_uuid VARCHAR,
    mig_profile VARCHAR,
    share_of_device DOUBLE NOT NULL DEFAULT 1.0,
    persistence_mode BOOLEAN,
    source VARCHAR NOT NULL,
    installed_from TIMESTAMP NOT NULL,   -- start of its first sample
    installed_to TIMESTAMP,              -- NULL while it is there; a lost GPU stays installed, and unknown
    idle_power_mw INTEGER                -- learned while free; NULL until then
);

CREATE TABLE holders (
    holder_id INTEGER PRIMARY KEY DEFAULT nextval('holder_ids'),
    job VARCHAR NOT NULL UNIQUE,
    user_name VARCHAR,
    project VARCHAR,
    job_name VARCHAR,
    kind VARCHAR,                        -- interactive | batch | inference
    framework VARCHAR,
    command VARCHAR,
    first_seen TIMESTAMP NOT NULL,
    last_seen TIMESTAMP NOT NULL
);

-- Half-open intervals [from_ts, to_ts); to_ts is NULL while the GPU is held. Shares of one GPU may exceed 1 in sum.
CREATE TABLE allocations (
    gpu_id INTEGER NOT NULL,
    holder_id INTEGER NOT NULL,
    share DOUBLE NOT NULL,
    from_ts TIMESTAMP NOT NULL,
    to_ts TIMESTAMP,
    source VARCHAR NOT NULL              -- lease | slurm | kubernetes | environment | process
);

-- Leases that the service granted; the collector's inventory reads them, the service writes them.
CREATE TABLE leases (
    lease_id VARCHAR PRIMARY KEY,
    gpu_uuid VARCHAR NOT NULL,
    job VARCHAR NOT NULL,
    user_name VARCHAR,
    project VARCHAR,
    job_name VARCHAR,
    kind VARCHAR,
    share DOUBLE NOT NULL,
    granted_at TIMESTAMP NOT NULL,
    released_at TIMESTAMP
);

-- The hot table, in arrival order. A row covers the width_ms that end at ts.
CREATE TABLE samples (
    ts TIMESTAMP NOT NULL,
    gpu_id INTEGER NOT NULL,
    width_ms INTEGER NOT NULL,
    rung UTINYINT NOT NULL,              -- 0 unknown, 1 GPU utilization, 2 graphics engine active, 3 SM active
    utilization_e4 SMALLINT,
    gpu_utilization_e4 SMALLINT,
    gpu_utilization_max_e4 SMALLINT,
    gpu_busy_e4 SMALLINT,
    memory_controller_e4 SMALLINT,
    encoder_e4 SMALLINT,
    decoder_e4 SMALLINT,
    graphics_active_e4 SMALLINT,
    sm_active_e4 SMALLINT,
    sm_occupancy_e4 SMALLINT,
    tensor_active_e4 SMALLINT,
    dram_active_e4 SMALLINT,
    memory_used_bytes BIGINT,
    memory_reserved_bytes BIGINT,
    power_mw INTEGER,
    energy_mj BIGINT,
    temperature_c SMALLINT,
    sm_clock_mhz SMALLINT,
    memory_clock_mhz SMALLINT,
    throttle_reasons BIGINT,
    ecc_corrected BIGINT,
    ecc_uncorrected BIGINT,
    xid INTEGER,
    process_count SMALLINT,
    flags VARCHAR                        -- comma-separated, NULL when there are none
);

-- One row for a (node, pid, start time); no index, because DuckDB rewrites rows with lists on every update.
CREATE TABLE processes (
    process_id INTEGER NOT NULL DEFAULT nextval('process_ids'),
    node VARCHAR NOT NULL,
    pid INTEGER NOT NULL,
    started_at TIMESTAMP NOT NULL,
    user_name VARCHAR,
    process_name VARCHAR,
    command VARCHAR,
    frameworks VARCHAR[],
    container VARCHAR,
    pod VARCHAR,
    pod_namespace VARCHAR,
    uid BIGINT,
    parent_pid INTEGER,
    slurm_job VARCHAR,
    notebook VARCHAR,
    environment MAP(VARCHAR, VARCHAR),
    unreadable VARCHAR[],
    holder_id INTEGER,
    first_seen TIMESTAMP NOT NULL,
    last_seen TIMESTAMP NOT NULL
);

CREATE TABLE process_samples (
    ts TIMESTAMP NOT NULL,
    gpu_id INTEGER NOT NULL,
    process_id INTEGER NOT NULL,
    width_ms INTEGER NOT NULL,
    process_type VARCHAR NOT NULL,
    memory_used_bytes BIGINT,
    sm_e4 SMALLINT
);

CREATE TABLE events (
    ts TIMESTAMP NOT NULL,
    gpu_id INTEGER NOT NULL,
    kind VARCHAR NOT NULL,
    detail VARCHAR
);

CREATE TABLE gaps (
    source VARCHAR NOT NULL,
    node VARCHAR,
    gpu_id INTEGER,                      -- NULL: the whole source was blind
    from_ts TIMESTAMP NOT NULL,
    to_ts TIMESTAMP NOT NULL,
    reason VARCHAR NOT NULL
);

-- One row a source a tick: duration and success are data too.
CREATE TABLE ticks (
    ts TIMESTAMP NOT NULL,
    source VARCHAR NOT NULL,
    duration_ms DOUBLE NOT NULL,
    gpus INTEGER NOT NULL,
    reason VARCHAR                       -- NULL when the source could be read
);

-- The newest sample of each GPU: what the screens that show "now" need of it, and no more, because it is
-- written anew at every tick.
CREATE TABLE latest AS
SELECT
    ts, gpu_id, width_ms, rung, utilization_e4, gpu_utilization_e4, graphics_active_e4, sm_active_e4,
    memory_used_bytes, power_mw, temperature_c, process_count, flags
FROM samples LIMIT 0;

-- Milliseconds of one GPU in each state, split by holder (NULL: nobody). Over the rows of one GPU and minute
-- the states sum to the part of the minute that was rolled up; what is missing from the minute is unknown.
CREATE TABLE rollup_1m (
    ts TIMESTAMP NOT NULL,               -- start of the minute
    gpu_id INTEGER NOT NULL,
    holder_id INTEGER,
    free_ms INTEGER NOT NULL,
    allocated_empty_ms INTEGER NOT NULL,
    held_idle_ms INTEGER NOT NULL,
    low_saturation_ms INTEGER NOT NULL,
    moderate_ms INTEGER NOT NULL,
    good_ms INTEGER NOT NULL,
    suspect_ms INTEGER NOT NULL,
    unknown_ms INTEGER NOT NULL,
    held_ms INTEGER NOT NULL,            -- of all the above, the time in which somebody was given it
    measured_ms INTEGER NOT NULL,        -- the time with a utilization
    used_ms INTEGER NOT NULL,            -- utilization times measured time, suspect bins left out
    utilization_max_e4 SMALLINT,
    rung UTINYINT NOT NULL,              -- the lowest rung that went in; 0 when nothing was measured
    memory_used_mean_bytes BIGINT,
    memory_used_max_bytes BIGINT,
    energy_mj BIGINT                     -- energy used, this holder's share
);

CREATE TABLE rollup_1h AS SELECT * FROM rollup_1m LIMIT 0;

-- How far each level is complete: rollup_1m, rollup_1h, sealed. Rows before the mark need no recomputation.
CREATE TABLE watermarks (
    name VARCHAR PRIMARY KEY,
    complete_to TIMESTAMP NOT NULL
);

CREATE TABLE findings (
    finding_id INTEGER PRIMARY KEY DEFAULT nextval('finding_ids'),
    kind VARCHAR NOT NULL,
    gpu_id INTEGER NOT NULL,
    holder_id INTEGER,
    opened_at TIMESTAMP NOT NULL,
    last_seen_at TIMESTAMP NOT NULL,
    closed_at TIMESTAMP,
    window_from TIMESTAMP NOT NULL,
    window_to TIMESTAMP NOT NULL,
    coverage DOUBLE NOT NULL,
    rung UTINYINT NOT NULL,
    wasted_gpu_hours DOUBLE,
    sentence VARCHAR NOT NULL,
    evidence JSON NOT NULL
);

CREATE TABLE prices (
    model VARCHAR PRIMARY KEY,           -- '*' prices every model that has no row of its own
    per_gpu_hour DOUBLE NOT NULL,
    currency VARCHAR NOT NULL
);

-- Where a resumable import stands.
CREATE TABLE imports (
    origin VARCHAR NOT NULL,
    from_ts TIMESTAMP NOT NULL,
    to_ts TIMESTAMP NOT NULL,
    rows_added BIGINT NOT NULL,
    finished_at TIMESTAMP NOT NULL
);
