-- Jobs that Fallow did not launch.
--
-- checkpoints   one attempt to take a foreign job off its GPUs; body is the job and its processes as JSON.
--               Written before the driver is asked. ended_as NULL: they are off, or it is not known yet;
--               resumed, failed (nothing was changed), or gone (the processes are)
CREATE TABLE checkpoints (
    job VARCHAR NOT NULL,
    intent BIGINT NOT NULL,
    begun_at TIMESTAMP NOT NULL,
    body VARCHAR NOT NULL,
    ended_at TIMESTAMP,
    ended_as VARCHAR
);
