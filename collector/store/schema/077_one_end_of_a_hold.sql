-- Whether an allocation still holds its GPU, as far as anything is known of it: it has no end, or it ends with the newest
-- sample of its GPU, as the last ones of a recording, of an imported past, or of a node that fell silent do. Of what came
-- after nobody knows, so it has not ended. (As holds_at and gpus_at_newest_tick have it, for an instant.)
CREATE MACRO still_held(to_ts, newest_ts, newest_width_ms) AS
    to_ts IS NULL
    OR coalesce(to_ts >= newest_ts AND to_ts <= newest_ts + to_milliseconds(newest_width_ms), false);
