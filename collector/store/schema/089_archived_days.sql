-- Sealed days that have a copy in a bucket of S3-compatible storage (docs/decisions/0128).
--
-- key          below the address of archive_place
-- path, sealed_at   of the row of sealed that it is a copy of
-- is_here      the day is still on this disk too, and read from there
CREATE TABLE archived (
    "key" VARCHAR PRIMARY KEY,
    "day" DATE NOT NULL,
    path VARCHAR NOT NULL,
    sealed_at TIMESTAMP NOT NULL,
    samples BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    sha256 VARCHAR NOT NULL,
    archived_at TIMESTAMP NOT NULL,
    is_here BOOLEAN NOT NULL
);

-- Where they are, one row: as the service was configured when it archived last. Never a credential.
CREATE TABLE archive_place (
    address VARCHAR NOT NULL,
    endpoint VARCHAR NOT NULL,
    region VARCHAR NOT NULL,
    ca_file VARCHAR NOT NULL
);
