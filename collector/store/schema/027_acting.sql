-- Submitted jobs, what they were told, what was planned, done and allowed: the register and the journal.
--
-- entries       one a submitted job; body is the whole entry as JSON, the columns are what is asked for often
-- directives    what a job's launcher was told; number is the journal's intent
-- plans         what was decided and how the guard ruled, while it matters; state: waiting, applied,
--               rejected, expired, done
-- intents       one a step before it is done; outcome NULL: not known yet
-- keeps         the owner's word to leave a job alone; works for jobs that Fallow did not launch as well
-- tellings      what owners were told, and when
-- switches      one row a switch: 'acting' is the kill switch
CREATE TABLE entries (
    job VARCHAR PRIMARY KEY,
    number BIGINT NOT NULL,
    nonce VARCHAR NOT NULL,
    user_name VARCHAR NOT NULL,
    project VARCHAR NOT NULL,
    stand VARCHAR NOT NULL,
    submitted_at TIMESTAMP NOT NULL,
    ended_at TIMESTAMP,
    body VARCHAR NOT NULL
);

CREATE TABLE directives (
    number BIGINT NOT NULL,
    job VARCHAR NOT NULL,
    given_at TIMESTAMP NOT NULL,
    body VARCHAR NOT NULL,
    handled_at TIMESTAMP,
    failed VARCHAR
);

CREATE TABLE plans (
    plan BIGINT PRIMARY KEY,
    as_of TIMESTAMP NOT NULL,
    state VARCHAR NOT NULL,
    body VARCHAR NOT NULL,
    settled_at TIMESTAMP,
    settled_by VARCHAR,
    because VARCHAR,
    snoozed_until TIMESTAMP
);

CREATE TABLE intents (
    intent BIGINT PRIMARY KEY,
    begun_at TIMESTAMP NOT NULL,
    plan BIGINT,
    job VARCHAR NOT NULL,
    verb VARCHAR NOT NULL,
    actor VARCHAR NOT NULL,
    reason VARCHAR NOT NULL,
    step VARCHAR NOT NULL,
    stood VARCHAR NOT NULL,
    outcome VARCHAR,
    found VARCHAR,
    settled_at TIMESTAMP,
    undo VARCHAR,
    undone_by BIGINT
);

CREATE TABLE keeps (
    job VARCHAR NOT NULL,
    kept_at TIMESTAMP NOT NULL,
    until_at TIMESTAMP NOT NULL,
    by_user VARCHAR NOT NULL
);

CREATE TABLE tellings (
    job VARCHAR NOT NULL,
    told_at TIMESTAMP NOT NULL,
    rung VARCHAR NOT NULL,
    message VARCHAR NOT NULL,
    reached VARCHAR
);

CREATE TABLE switches (
    name VARCHAR PRIMARY KEY,
    is_on BOOLEAN NOT NULL,
    set_at TIMESTAMP NOT NULL,
    by_user VARCHAR NOT NULL,
    because VARCHAR NOT NULL
);
