-- Processes on GPUs that were given to others, and environments that could not be read as a claim: what attribution
-- says of single processes. Half-open [from_ts, to_ts); to_ts is NULL while it is so.
CREATE TABLE intrusions (
    gpu_id INTEGER NOT NULL,
    process_id INTEGER NOT NULL,
    from_ts TIMESTAMP NOT NULL,
    to_ts TIMESTAMP
);

CREATE TABLE unclear_claims (
    process_id INTEGER NOT NULL,
    reason VARCHAR NOT NULL,
    from_ts TIMESTAMP NOT NULL,
    to_ts TIMESTAMP
);
