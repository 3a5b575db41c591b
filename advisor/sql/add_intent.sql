-- Writes down what is about to be done. Parameters: number, at_ms (UTC ms), steady_ms, boot, plan, job, verb,
-- actor, reason, step (JSON; '{}' for what is no step), stood (JSON; '' when it is not known), undo, no_undo.
INSERT INTO intents (
    intent, begun_at, steady_ms, boot, plan, job, verb, actor, reason, step, stood, undo, no_undo
) VALUES (
    $number, epoch_ms(CAST($at_ms AS BIGINT)), $steady_ms, $boot, $plan, $job, $verb, $actor, $reason, $step,
    $stood, $undo, $no_undo
);
