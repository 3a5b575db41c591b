-- The tick that came last, UTC ms. No parameters. NULL: there was none.
SELECT epoch_ms(ts) FROM newest_tick;
