-- Lets go of leases that ended too long ago. Parameter: before_ms (UTC ms).
DELETE FROM leases WHERE released_at < epoch_ms(CAST($before_ms AS BIGINT));
