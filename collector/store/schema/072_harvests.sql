-- What background jobs did in the idle gaps of others, and what that cost those: measured, both or neither. The GPU-hours
-- stay the other's in the ledger, and none of this is ever added to its states.
--
-- harvests      a row a stay of a job beside foreground on a GPU, from from_at; steps and work_s (GPU time of one step
--               alone, s) are the background job's own count; slowdown_ratio: foreground's steps beside others over its
--               control steps, at to_at, after foreground_steps. work_s and slowdown_ratio are NULL together
CREATE TABLE harvests (
    job VARCHAR NOT NULL,
    from_at TIMESTAMP NOT NULL,
    foreground VARCHAR NOT NULL,
    gpu_uuid VARCHAR NOT NULL,
    to_at TIMESTAMP NOT NULL,
    steps BIGINT NOT NULL,
    work_s DOUBLE,
    slowdown_ratio DOUBLE,
    foreground_steps BIGINT,
    PRIMARY KEY (job, from_at)
);
