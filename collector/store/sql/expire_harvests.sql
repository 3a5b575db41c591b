-- Stays of background jobs that ended before. Parameter: before_ms (UTC ms).
DELETE FROM harvests WHERE to_at < epoch_ms(CAST($before_ms AS BIGINT));
