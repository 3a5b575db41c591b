-- What was asked of a workload manager about one of its jobs, written down before it is asked: whoever starts after a
-- crash finds it and looks, and nothing is asked twice.
CREATE TABLE manager_acts (
    intent BIGINT NOT NULL,              -- the action's number in the journal
    job VARCHAR NOT NULL,                -- as in holders
    verb VARCHAR NOT NULL,               -- pause | resume
    begun_at TIMESTAMP NOT NULL,
    body VARCHAR NOT NULL,               -- JSON: which run of whom it was, as the manager said it just before
    after_body VARCHAR,                  -- JSON: the same when the outcome was seen first
    seen_at TIMESTAMP,                   -- when the outcome was seen first; it counts when it is seen again
    outcome VARCHAR,                     -- done | failed; NULL: not known yet
    settled_at TIMESTAMP,
    over_as VARCHAR,                     -- of a pause: released | gone | unknown; NULL: it holds
    over_at TIMESTAMP
);
