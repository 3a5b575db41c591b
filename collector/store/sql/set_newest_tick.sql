-- Notes which tick came last. Parameter: at_ms (UTC ms).
UPDATE newest_tick SET ts = make_timestamp_ms($at_ms);
