-- Runs of jobs that are over, as a workload manager's accounting has them: a row a run, of jobs that were given
-- GPUs, or asked for some and never began. Imported; nothing of it was measured here.
CREATE TABLE accounted_runs (
    manager VARCHAR NOT NULL,            -- slurm
    cluster VARCHAR NOT NULL,
    number VARCHAR NOT NULL,             -- the manager's own id, which it may use again
    submitted_at TIMESTAMP NOT NULL,
    started_at TIMESTAMP,                -- NULL: it never began
    ended_at TIMESTAMP NOT NULL,
    shown_id VARCHAR NOT NULL,           -- as people call it: 4_2
    user_name VARCHAR,
    project VARCHAR,
    job_name VARCHAR,
    partition VARCHAR NOT NULL,
    qos VARCHAR NOT NULL,
    reservation VARCHAR NOT NULL,
    state_name VARCHAR NOT NULL,         -- how it ended, in the manager's words: CANCELLED by 1000
    exit_code VARCHAR NOT NULL,          -- code:signal; empty: not said
    node_names VARCHAR[] NOT NULL,       -- where it was
    gpus INTEGER NOT NULL,               -- that it was given, of all nodes together
    gpu_types VARCHAR NOT NULL,          -- of these, with commas between them; empty: not said
    shards INTEGER NOT NULL,
    asked_gpus INTEGER,                  -- NULL: not said
    limit_s BIGINT,                      -- NULL: none, or not said
    measured_gpus INTEGER NOT NULL,      -- GPUs of which somebody else measured a mean over the whole run
    unused_gpus INTEGER NOT NULL,        -- of these, with a mean of 0
    utilization_ratio DOUBLE,            -- the mean of these means; NULL: of none
    measured VARCHAR                     -- JSON, a list of node, gpu, utilization_ratio, memory_used_bytes, memory_total_bytes
);
