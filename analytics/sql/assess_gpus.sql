-- Every GPU that is installed at an instant, and how fresh what is known of it is.
--
-- @param as_of instant: the instant
-- @param bins_from instant: start of the time that is judged
-- @column gpu_id integer: its number in the store
-- @column uuid text: the GPU
-- @column node text: its machine
-- @column gpu_index integer: its index there
-- @column gpu_place text: what it is called there; of a MIG instance with profile and number (0/1g.10gb#7)
-- @column model text: its model
-- @column mig_profile text: the profile of a MIG instance
-- @column share_of_device double (fraction): of the whole device
-- @column memory_total_bytes bigint (bytes): there
-- @column memory_free_bytes bigint (bytes): the least that was used while nobody held it
-- @column idle_power_mw integer (mW): what it draws when free
-- @column power_limit_mw integer (mW): what it may draw at most
-- @column installed_from_ms bigint (ms): since when it is installed
-- @column newest_ms bigint (ms): its newest sample
-- @column newest_width_ms integer (ms): the time that sample stands for
-- @column rung tinyint: the lowest rung in the time that is judged
-- @column lost_ms bigint (ms): when it was last reported lost, or since when a gap says that it was never measured
-- @column is_off_the_bus boolean: the driver says so: it reported the GPU lost, or XID 79 came within ten minutes of its newest sample, or later
-- @column falls bigint: how often it was reported lost in the 24 hours before
-- @column xid text: the newest XID of the GPU's own, no program's, as its driver's number and its meaning
-- @column xid_ms bigint (ms): when that came
-- @column ecc_errors bigint: uncorrected memory errors in the time that is judged
-- @null lost_ms: it is not lost, as far as is known; xid, xid_ms: none came; else: not measured
WITH newest AS (
    SELECT gpu_id, max(ts) AS ts, arg_max(width_ms, ts) AS width_ms,
        min(rung) FILTER (WHERE utilization_e4 IS NOT NULL) AS rung, max(ecc_uncorrected) - min(ecc_uncorrected) AS ecc_errors
    FROM samples_all
    WHERE ts > $bins_from AND ts <= $as_of
    GROUP BY gpu_id
), silent AS (
    SELECT gpu_id FROM gpus ANTI JOIN newest USING (gpu_id)
), hours AS (
    SELECT gpu_id, max(ts) + INTERVAL 1 HOUR AS ts
    FROM rollup_1h
    WHERE ts < $bins_from AND gpu_id IN (SELECT gpu_id FROM silent)
        -- a GPU that is given and silent has hours too, in which nothing was measured
        AND (memory_used_max_bytes IS NOT NULL OR
            free_ms + allocated_empty_ms + held_idle_ms + low_saturation_ms + moderate_ms + good_ms + suspect_ms > 0)
    GROUP BY gpu_id
), dated AS (  -- of a moment in the past ``latest`` says nothing: when in that hour it was measured last
    SELECT s.gpu_id, max(s.ts) AS ts
    FROM samples_all AS s
    JOIN (SELECT h.gpu_id, h.ts FROM hours AS h JOIN latest AS l USING (gpu_id) WHERE l.ts > $as_of) AS h
        ON s.gpu_id = h.gpu_id AND s.ts > h.ts - INTERVAL 1 HOUR AND s.ts <= h.ts
    GROUP BY s.gpu_id
), happened AS (
    SELECT
        gpu_id, max(ts) FILTER (WHERE kind = 'gpu-lost') AS lost, max(ts) FILTER (WHERE kind = 'gpu-returned') AS returned,
        count(*) FILTER (WHERE kind = 'gpu-lost' AND ts > $as_of - INTERVAL 24 HOUR) AS falls,
        max(ts) FILTER (WHERE kind = 'xid' AND regexp_matches(detail, '^79\b')) AS off_the_bus,  -- NVIDIA's XID catalogue
        -- Those that its catalogue ascribes to the hardware, the driver or a link, and to no program.
        max(ts) FILTER (WHERE kind = 'xid' AND regexp_matches(detail, '^(48|62|64|74|79|92|94|95|119|120)\b')) AS failed,
        arg_max(detail, ts) FILTER (WHERE kind = 'xid' AND regexp_matches(detail, '^(48|62|64|74|79|92|94|95|119|120)\b')) AS xid
    FROM events
    WHERE ts <= $as_of
    GROUP BY gpu_id
), blind AS (
    SELECT gpu_id, min(from_ts) AS from_ts, bool_or(reason LIKE '%fell off the bus%') AS is_lost  -- NVML's error 15
    FROM gaps
    WHERE gpu_id IS NOT NULL AND from_ts <= $as_of
    GROUP BY gpu_id
    HAVING max(to_ts) >= $as_of - INTERVAL 2 MINUTE
)
SELECT
    g.gpu_id, g.uuid, g.node, g.gpu_index,
    gpu_place(g.gpu_index, g.uuid, g.parent_uuid, g.mig_profile, g.gpu_instance, g.compute_instance)
        -- nodes of two clusters have one name: twins are told by their UUIDs as well (a driver's has 40 characters)
        || CASE WHEN count(*) OVER (PARTITION BY g.node, gpu_place(
            g.gpu_index, g.uuid, g.parent_uuid, g.mig_profile, g.gpu_instance, g.compute_instance)) > 1
            THEN ' (' || CASE WHEN length(g.uuid) = 40 THEN g.uuid[:12] ELSE g.uuid END || ')' ELSE '' END AS gpu_place,
    g.model, g.mig_profile, g.share_of_device, g.memory_total_bytes,
    g.memory_free_bytes, g.idle_power_mw, g.power_limit_mw,
    epoch_ms(g.installed_from) AS installed_from_ms,
    epoch_ms(coalesce(n.ts, CASE WHEN l.ts <= $as_of THEN l.ts END, least(coalesce(d.ts, h.ts), e.lost), d.ts, h.ts)) AS newest_ms,
    coalesce(n.width_ms, CASE WHEN l.ts <= $as_of THEN l.width_ms END, 0) AS newest_width_ms,
    coalesce(n.rung, 0) AS rung,
    CASE
        WHEN e.lost > coalesce(e.returned, e.lost - INTERVAL 1 SECOND) AND e.lost >= coalesce(n.ts, e.lost)
            THEN epoch_ms(e.lost)
        WHEN n.ts IS NULL AND h.ts IS NULL THEN epoch_ms(b.from_ts)
    END AS lost_ms,
    coalesce(e.lost > coalesce(e.returned, e.lost - INTERVAL 1 SECOND) AND e.lost >= coalesce(n.ts, e.lost), false)
        OR coalesce(epoch_ms(e.off_the_bus) >= coalesce(newest_ms, 0) - 600000, false) OR coalesce(lost_ms IS NOT NULL AND b.is_lost, false)
        AS is_off_the_bus,
    coalesce(e.falls, 0) AS falls, e.xid, epoch_ms(e.failed) AS xid_ms, n.ecc_errors
FROM gpus AS g
LEFT JOIN newest AS n USING (gpu_id)
LEFT JOIN latest AS l USING (gpu_id)
LEFT JOIN hours AS h ON h.gpu_id = g.gpu_id
LEFT JOIN dated AS d ON d.gpu_id = g.gpu_id
LEFT JOIN happened AS e ON e.gpu_id = g.gpu_id
LEFT JOIN blind AS b ON b.gpu_id = g.gpu_id
WHERE g.installed_from <= $as_of AND (g.installed_to IS NULL OR g.installed_to > $as_of)
ORDER BY g.gpu_id;
