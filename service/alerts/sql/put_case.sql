-- Keeps a case as it is now; what is known of its number already is replaced. Parameters: number, key, kind,
-- level, rung, since_ms, title, says, next, command, evidence (JSON), job, user_name, project, node, gpus (UUIDs,
-- commas between), opened_ms, at_ms, told_level, told_ms, closed_ms, because; times are UTC ms.
INSERT INTO alert_cases
SELECT
    $number, $key, $kind, $level, $rung, epoch_ms(CAST($since_ms AS BIGINT)), $title, $says, $next, $command,
    $evidence, $job, $user_name, $project, $node, $gpus, epoch_ms(CAST($opened_ms AS BIGINT)),
    epoch_ms(CAST($at_ms AS BIGINT)), $told_level, epoch_ms(CAST($told_ms AS BIGINT)),
    epoch_ms(CAST($closed_ms AS BIGINT)), $because
ON CONFLICT (number) DO UPDATE SET
    kind = excluded.kind, level = excluded.level, rung = excluded.rung, since_at = excluded.since_at, title = excluded.title,
    says = excluded.says, next = excluded.next, command = excluded.command, evidence = excluded.evidence,
    job = excluded.job, user_name = excluded.user_name, project = excluded.project, node = excluded.node,
    gpus = excluded.gpus, changed_at = excluded.changed_at, told_level = excluded.told_level,
    told_at = excluded.told_at, closed_at = excluded.closed_at, because = excluded.because;
