-- What a site's own commands were asked about jobs that Fallow did not launch (docs/hooks.md): written before a
-- command is run. `ended_at` and `ended_as` are how the command ended, by itself; `outcome` (done, failed) is what
-- was seen of the job. `over_at` and `over_as` (released, unknown): how a pause that was seen ended.
CREATE TABLE hook_acts (
    intent BIGINT PRIMARY KEY,
    job VARCHAR NOT NULL,
    verb VARCHAR NOT NULL,
    begun_at TIMESTAMP NOT NULL,
    body VARCHAR NOT NULL,
    ended_at TIMESTAMP,
    ended_as VARCHAR,
    settled_at TIMESTAMP,
    outcome VARCHAR,
    over_at TIMESTAMP,
    over_as VARCHAR
);
