-- Records a sealed file. Parameters: day (YYYY-MM-DD), path (relative to the data folder), samples, bytes,
-- widest_ms.
INSERT INTO sealed (day, path, samples, bytes, widest_ms, sealed_at)
VALUES (CAST($day AS DATE), $path, $samples, $bytes, $widest_ms, CAST(now() AT TIME ZONE 'UTC' AS TIMESTAMP));
