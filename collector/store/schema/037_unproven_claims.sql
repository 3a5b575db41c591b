-- What launchers say that their jobs hold, and that Fallow never gave them: nobody holds a GPU by it (docs/act.md).
--
-- unproven_claims  a row a job and GPU. first_at, last_at: when it was said, to the minute; why: in words
CREATE TABLE unproven_claims (
    job VARCHAR NOT NULL,
    gpu_uuid VARCHAR NOT NULL,
    user_name VARCHAR NOT NULL,
    first_at TIMESTAMP NOT NULL,
    last_at TIMESTAMP NOT NULL,
    why VARCHAR NOT NULL,
    PRIMARY KEY (job, gpu_uuid)
);
