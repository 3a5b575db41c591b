-- The machines that push what they measure (`fallow node`), the one that was silent for longest first.
--
-- @column node text: its name, which is its token's
-- @column last_ts timestamp: when its newest stored tick was
-- @column silent_s double (s): how long before the newest tick of the head that was
-- @column clock_ahead_s double (s): how far its clock is ahead of the head's; 0 within a second
-- @column lost_ticks integer: ticks that it made and that nobody has, since it was first heard
-- @column version text: of the Fallow there
-- @column pushed_ts timestamp: when the last push came of which something is stored
-- @column waiting_ticks integer: ticks that were in its spool then and had not been received yet
-- @column spool_age_s double (s): how old the oldest of them was
-- @never_null node, clock_ahead_s, lost_ticks, version, pushed_ts
-- @null last_ts, silent_s: it was heard, and nothing of it was ever stored
-- @null waiting_ticks, spool_age_s: it does not say, as one of 0.1.0
SELECT
    m.node, m.last_ts, greatest(0, epoch_ms(n.ts) - epoch_ms(m.last_ts)) / 1000 AS silent_s,
    m.ahead_ms / 1000 AS clock_ahead_s, m.lost AS lost_ticks, m.version,
    m.heard_ts AS pushed_ts, m.waiting AS waiting_ticks, m.waits_ms / 1000 AS spool_age_s
FROM node_marks AS m CROSS JOIN newest_tick AS n
ORDER BY silent_s DESC NULLS FIRST, m.node;
