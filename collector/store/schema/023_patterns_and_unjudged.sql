-- What the newest judgement says beside its findings: how each holder works, and what could not be judged and why.
-- Both are replaced as a whole each time. No keys: the engine refuses a deleted key again within one transaction.

-- A row a holder that was measured in the window.
CREATE TABLE patterns (
    holder_id INTEGER NOT NULL,
    kind VARCHAR NOT NULL,               -- analysis-bursts, low-saturation, gaps-between-runs, saturated, steady, unclear
    as_of TIMESTAMP NOT NULL,
    window_from TIMESTAMP NOT NULL,
    window_to TIMESTAMP NOT NULL,
    evidence JSON NOT NULL
);

-- A row a GPU, holder (NULL: whoever holds it) and reason.
CREATE TABLE unjudged (
    gpu_id INTEGER NOT NULL,
    holder_id INTEGER,
    verdict VARCHAR NOT NULL,            -- unknown, starting
    kinds VARCHAR[] NOT NULL,            -- the kinds of finding that were not judged; empty: starting
    reason VARCHAR NOT NULL,
    as_of TIMESTAMP NOT NULL
);
