-- Alerts: what was worth a word, and the words.
--
-- alert_cases    one from its opening to its closing; at most one open a key. level: how bad, rung: its name;
--                told_level, told_at: the highest level of which a word went out, and when; evidence is JSON
-- alert_letters  one a receiver (user:NAME, project:NAME, to:ROUTE) and word. due_at: when it goes out;
--                gathered: it waits for others, and goes out in the letter that digest names; posted_at NULL:
--                it is not in the outbox yet; outcome NULL: what became of it is not known, else sent,
--                given-up or nobody. telling: the job whose owner the ladder wants told by it, at told_at;
--                noted_at: its arrival was written down for the ladder
CREATE TABLE alert_cases (
    number BIGINT PRIMARY KEY,
    key VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    level INTEGER NOT NULL,
    rung VARCHAR NOT NULL,
    since_at TIMESTAMP NOT NULL,
    title VARCHAR NOT NULL,
    says VARCHAR NOT NULL,
    next VARCHAR NOT NULL,
    command VARCHAR NOT NULL,
    evidence VARCHAR NOT NULL,
    job VARCHAR,
    user_name VARCHAR,
    project VARCHAR,
    node VARCHAR,
    gpus VARCHAR NOT NULL,
    opened_at TIMESTAMP NOT NULL,
    changed_at TIMESTAMP NOT NULL,
    told_level INTEGER NOT NULL,
    told_at TIMESTAMP,
    closed_at TIMESTAMP,
    because VARCHAR NOT NULL
);

CREATE TABLE alert_letters (
    number BIGINT PRIMARY KEY,
    alert BIGINT NOT NULL,
    opened_at TIMESTAMP NOT NULL,
    receiver VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    turn VARCHAR NOT NULL,
    title VARCHAR NOT NULL,
    body VARCHAR NOT NULL,
    made_at TIMESTAMP NOT NULL,
    due_at TIMESTAMP NOT NULL,
    gathered BOOLEAN NOT NULL,
    digest BIGINT,
    telling VARCHAR,
    posted_at TIMESTAMP,
    outcome VARCHAR,
    found VARCHAR,
    settled_at TIMESTAMP,
    noted_at TIMESTAMP
);
