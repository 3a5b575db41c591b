-- How far each node that pushes is taken in; times in UTC ms. No parameters.
SELECT node, credential, machine, spool, version, sequence, coalesce(epoch_ms(last_ts), 0), epoch_ms(heard_ts),
    ahead_ms, lost, waiting, waits_ms
FROM node_marks ORDER BY node;
