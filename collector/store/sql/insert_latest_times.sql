-- Notes when the newest samples ended. Parameter: times_ms, BIGINT[], UTC ms.
INSERT INTO latest_times SELECT epoch_ms(unnest(CAST($times_ms AS BIGINT[])));
