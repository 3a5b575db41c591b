-- When the newest samples ended that lie in the hot table, UTC ms. No parameters.
SELECT epoch_ms(ts) FROM latest_times;
