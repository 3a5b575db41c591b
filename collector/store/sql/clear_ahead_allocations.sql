-- Removes the allocations that began and ended after at_ms (UTC ms), the time that a clock was set back to.
DELETE FROM allocations WHERE to_ts IS NOT NULL AND from_ts >= epoch_ms(CAST($at_ms AS BIGINT));
