-- Notes when the newest samples ended: the Arrow table "incoming" (ts_ms: UTC ms).
INSERT INTO latest_times SELECT epoch_ms(ts_ms) FROM incoming;
