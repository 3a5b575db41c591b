-- The last tick of each source, UTC ms. No parameters.
SELECT source, epoch_ms(max(ts)) FROM ticks GROUP BY source;
