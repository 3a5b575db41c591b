-- A GPU was there from its first sample on: moves installed_from back to the start of the earliest row of
-- the Arrow table "incoming"; not of one that was cut anew, which was another before. Rows: gpu_id and the new installed_from (UTC ms) of each that moved.
UPDATE gpus SET installed_from = first_ts
FROM (SELECT gpu_id, min(ts - to_milliseconds(width_ms)) AS first_ts FROM incoming GROUP BY gpu_id) AS seen
WHERE seen.gpu_id = gpus.gpu_id AND first_ts < installed_from AND cut_from IS NULL
RETURNING gpus.gpu_id, epoch_ms(installed_from);
