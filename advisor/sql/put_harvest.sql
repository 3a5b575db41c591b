-- Writes down what a background job has done in its stay so far. Parameters: job, from_ms, to_ms (UTC ms), foreground,
-- gpu_uuid, steps, work_s (s), slowdown_ratio, foreground_steps; NULL: not measured.
INSERT INTO harvests (job, from_at, foreground, gpu_uuid, to_at, steps, work_s, slowdown_ratio, foreground_steps)
VALUES (
    $job, epoch_ms(CAST($from_ms AS BIGINT)), $foreground, $gpu_uuid, epoch_ms(CAST($to_ms AS BIGINT)), $steps, $work_s,
    $slowdown_ratio, $foreground_steps)
ON CONFLICT DO UPDATE SET
    to_at = excluded.to_at, steps = excluded.steps, work_s = excluded.work_s, slowdown_ratio = excluded.slowdown_ratio,
    foreground_steps = excluded.foreground_steps;
