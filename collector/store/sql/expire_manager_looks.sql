-- Lets go of looks at workload managers that were too long ago. Parameter: before_ms (UTC ms).
DELETE FROM manager_looks WHERE ts < epoch_ms(CAST($before_ms AS BIGINT));
