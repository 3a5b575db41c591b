-- All samples of a day, hot ones and those already sealed, as they are kept: by GPU and time, each once.
-- Parameters: from_ms, to_ms (UTC ms, half-open). Columns: uuid, then those of the table samples.
-- NULL: not measured.
SELECT gpus.uuid, samples_all.*
FROM samples_all JOIN gpus USING (gpu_id)
WHERE ts >= epoch_ms(CAST($from_ms AS BIGINT)) AND ts < epoch_ms(CAST($to_ms AS BIGINT))
ORDER BY gpu_id, ts;
