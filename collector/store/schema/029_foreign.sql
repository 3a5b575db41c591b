-- Jobs that Fallow did not launch, and what people allow for their own.
--
-- checkpoints   one attempt to take a foreign job off its GPUs; body is the job and its processes as JSON.
--               Written before the driver is asked. ended_as NULL: they are off, or it is not known yet;
--               resumed, failed (nothing was changed), or gone (the processes are)
-- consents      what a user allows or refuses for all own jobs; the newest word about a thing counts
CREATE TABLE checkpoints (
    job VARCHAR NOT NULL,
    intent BIGINT NOT NULL,
    begun_at TIMESTAMP NOT NULL,
    body VARCHAR NOT NULL,
    ended_at TIMESTAMP,
    ended_as VARCHAR
);

CREATE TABLE consents (
    user_name VARCHAR NOT NULL,
    thing VARCHAR NOT NULL,
    allowed BOOLEAN NOT NULL,
    set_at TIMESTAMP NOT NULL
);
