-- What a site's own command was asked by one intent. Parameters: intent.
-- Columns: intent, begun_ms, ended_ms (UTC ms), ended_as, body (JSON), outcome, over_as. NULL: not yet.
SELECT intent, epoch_ms(begun_at) AS begun_ms, epoch_ms(ended_at) AS ended_ms, ended_as, body, outcome, over_as
FROM hook_acts WHERE intent = $intent;
