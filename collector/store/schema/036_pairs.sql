-- Jobs that Fallow put on one GPU, and how fast they went there. A row a pair of jobs.
--
-- pairs         host was on the GPU, guest came. *_profile: what jobs have in common that behave alike. *_alone: steps a
--               second before that; *_speed: the part of it that the trial showed, over so many windows. NULL: not
--               measured. gain_expected: what it was expected to add, in GPUs. undone: parted for good
CREATE TABLE pairs (
    host VARCHAR NOT NULL,
    guest VARCHAR NOT NULL,
    gpu_model VARCHAR NOT NULL,
    host_profile VARCHAR NOT NULL,
    guest_profile VARCHAR NOT NULL,
    since TIMESTAMP NOT NULL,
    host_alone DOUBLE,
    guest_alone DOUBLE,
    gain_expected DOUBLE NOT NULL,
    host_speed DOUBLE,
    guest_speed DOUBLE,
    windows INTEGER NOT NULL DEFAULT 0,
    undone BOOLEAN NOT NULL DEFAULT false,
    PRIMARY KEY (host, guest)
);
