-- Records an imported range. Parameters: origin, from_ms, to_ms (UTC ms, half-open), rows_added.
INSERT INTO imports (origin, from_ts, to_ts, rows_added, finished_at) VALUES (
    $origin, epoch_ms(CAST($from_ms AS BIGINT)), epoch_ms(CAST($to_ms AS BIGINT)), $rows_added,
    CAST(now() AT TIME ZONE 'UTC' AS TIMESTAMP)
);
