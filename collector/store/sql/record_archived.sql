-- Records the copy of a sealed day, if that day is still the one that was copied.
-- Parameters: day (YYYY-MM-DD), path, sealed_at of the row of sealed; key; samples; bytes; sha256.
INSERT INTO archived ("key", "day", path, sealed_at, samples, bytes, sha256, archived_at, is_here)
SELECT $key, day, path, sealed_at, $samples, $bytes, $sha256, CAST(now() AT TIME ZONE 'UTC' AS TIMESTAMP), true
FROM sealed
WHERE day = CAST($day AS DATE) AND path = $path AND sealed_at = $sealed_at;
