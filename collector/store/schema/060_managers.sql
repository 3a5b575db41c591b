-- What workload managers show: a row a run of a job (a requeued job has several), waiting, running or over.
CREATE TABLE manager_jobs (
    manager VARCHAR NOT NULL,            -- slurm
    cluster VARCHAR NOT NULL,
    number VARCHAR NOT NULL,             -- the manager's own id, which it may use again
    submitted_at TIMESTAMP NOT NULL,
    restarts INTEGER NOT NULL,           -- how often it was put back into the queue before this run
    job VARCHAR NOT NULL,                -- as in holders
    shown_id VARCHAR NOT NULL,           -- as people call it: 4_[2-3]
    user_name VARCHAR,
    project VARCHAR,
    job_name VARCHAR,
    kind VARCHAR,
    state VARCHAR NOT NULL,              -- pending | running | paused | ending | ended
    state_name VARCHAR NOT NULL,         -- the manager's word; empty when it was over before anybody looked
    reason VARCHAR NOT NULL,             -- why it waits, in the manager's words
    partition VARCHAR NOT NULL,
    qos VARCHAR NOT NULL,
    reservation VARCHAR NOT NULL,
    nodes INTEGER NOT NULL,              -- asked for, as the three after it
    gpus INTEGER,                        -- of all nodes together; NULL: not said
    shards INTEGER NOT NULL,
    tasks INTEGER NOT NULL,              -- of a waiting array
    given VARCHAR,                       -- JSON, a list of node, gpus, indices, is_shared; NULL: it has some, not known which
    priority BIGINT,
    limit_s BIGINT,                      -- NULL: none
    eligible_at TIMESTAMP,
    started_at TIMESTAMP,
    ended_at TIMESTAMP                   -- NULL: it has not
);

-- A workload manager's nodes as they are now.
CREATE TABLE manager_nodes (
    manager VARCHAR NOT NULL,
    cluster VARCHAR NOT NULL,
    node VARCHAR NOT NULL,
    state VARCHAR,                       -- NULL: it gets jobs; drained | down | reserved | unasked
    reason VARCHAR NOT NULL,
    gpus INTEGER,
    given_gpus INTEGER,                  -- by the node's own word
    partitions VARCHAR NOT NULL          -- with commas between them
);

-- Each look at a workload manager that was answered; of those that were not see ticks and gaps.
CREATE TABLE manager_looks (
    ts TIMESTAMP NOT NULL,
    manager VARCHAR NOT NULL,
    cluster VARCHAR NOT NULL,
    took_ms DOUBLE NOT NULL,
    running INTEGER NOT NULL,
    pending INTEGER NOT NULL,            -- every task of a waiting array counts
    nodes INTEGER NOT NULL,
    gpus INTEGER NOT NULL,
    given_gpus INTEGER NOT NULL,
    doubted_nodes INTEGER NOT NULL       -- that gave out more than the jobs shown hold
);
