-- Processes whose environment names GPUs in a way that could not be read, so that it counts as no claim, and why.
--
-- @param from_ts minute: start of the window
-- @param to_ts minute: end of the window, exclusive
-- @param node text = NULL: only this node
-- @param user text = NULL: only this user's processes
-- @param uuid text = NULL: only processes seen on this GPU
-- @param open flag = NULL: true: only what is still so; false: only what is over; NULL: both
-- @column node text: the machine
-- @column user_name text: whose the process is
-- @column pid integer: the host's process id
-- @column process_name text: its name
-- @column command text: its command line
-- @column reason text: why its claim could not be read
-- @column from_ts timestamp: since when
-- @column to_ts timestamp: until when
-- @null to_ts: it is still so; else: not readable from outside
SELECT p.node, p.user_name, p.pid, p.process_name, p.command, u.reason, u.from_ts, u.to_ts
FROM unclear_claims AS u
JOIN processes AS p USING (process_id)
WHERE u.from_ts < $to_ts AND (u.to_ts IS NULL OR u.to_ts > $from_ts)
    AND ($open IS NULL OR (u.to_ts IS NULL) = $open)
    AND ($node IS NULL OR p.node = $node) AND ($user IS NULL OR p.user_name = $user)
    AND ($uuid IS NULL OR EXISTS (
        SELECT 1 FROM process_samples AS s JOIN gpus AS g USING (gpu_id)
        WHERE s.process_id = u.process_id AND g.uuid = $uuid))
ORDER BY u.to_ts IS NOT NULL, u.from_ts DESC, p.node, p.pid;
