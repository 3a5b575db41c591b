-- What owners allow with their own jobs, by their own word (`fallow consent`). A row a word; none is ever changed.
--
-- consents      said_at: when; user_name: who, and whose jobs it is about. job NULL: all jobs of that user. kind: pause,
--               restart, resize, release or share. allowed NULL: takes back what was said before. until_at NULL: until
--               something else is said
CREATE TABLE consents (
    said_at TIMESTAMP NOT NULL,
    user_name VARCHAR NOT NULL,
    job VARCHAR,
    kind VARCHAR NOT NULL,
    allowed BOOLEAN,
    until_at TIMESTAMP
);
