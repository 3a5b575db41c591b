-- How far each node that pushes its ticks (`fallow node`) is taken in. Written in the transaction of the ticks themselves,
-- so that a tick is stored once whoever is killed when.
--
-- node_marks    a row a node, named as its token is. spool and sequence: the node's spool, and the highest number of it
--               that is stored; credential: which token it pushed with last, machine: the machine that is bound to it.
--               last_ts: when its newest stored tick was; heard_ts: when it last pushed; ahead_ms: how far its clock is
--               ahead of the head's, 0 within a second; lost: ticks that it made and that nobody has
CREATE TABLE node_marks (
    node VARCHAR PRIMARY KEY,
    credential VARCHAR NOT NULL,
    machine VARCHAR NOT NULL,
    spool VARCHAR NOT NULL,
    version VARCHAR NOT NULL,
    sequence BIGINT NOT NULL,
    last_ts TIMESTAMP,
    heard_ts TIMESTAMP NOT NULL,
    ahead_ms BIGINT NOT NULL,
    lost BIGINT NOT NULL
);
