-- What was asked of a workload manager by one intent. Parameters: intent.
-- Columns: intent, begun_ms, seen_ms (UTC ms), body, after_body (JSON), outcome, over_as. NULL: not yet.
SELECT intent, epoch_ms(begun_at) AS begun_ms, epoch_ms(seen_at) AS seen_ms, body, after_body, outcome, over_as
FROM manager_acts WHERE intent = $intent;
