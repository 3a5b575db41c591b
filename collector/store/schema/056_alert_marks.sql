-- Since when something is watched for alerts that tell of what happened: of what was before nobody is told.
-- name: job-ended, since when messages at the end of jobs are switched on
CREATE TABLE alert_marks (
    name VARCHAR PRIMARY KEY,
    since_at TIMESTAMP NOT NULL
);
