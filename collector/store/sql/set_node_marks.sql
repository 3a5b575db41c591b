-- How far nodes are taken in, by the rows of marks: node, credential, machine, spool, version, sequence, at_ms (UTC ms,
-- NULL: no tick of it was ever stored), heard_ms (UTC ms), ahead_ms, lost, waiting, waits_ms. No parameters.
INSERT INTO node_marks
SELECT node, credential, machine, spool, version, sequence, epoch_ms(at_ms), epoch_ms(heard_ms), ahead_ms, lost,
    waiting, waits_ms
FROM marks
ON CONFLICT (node) DO UPDATE SET
    credential = excluded.credential, machine = excluded.machine, spool = excluded.spool, version = excluded.version,
    sequence = excluded.sequence, last_ts = excluded.last_ts, heard_ts = excluded.heard_ts,
    ahead_ms = excluded.ahead_ms, lost = excluded.lost, waiting = excluded.waiting,
    waits_ms = excluded.waits_ms;
