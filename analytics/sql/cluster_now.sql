-- The cluster at its newest tick.
--
-- Where a board is cut anew, instances that are gone stay installed for a minute or two, beside those that took their
-- place: those that are gone count for nothing then, and the board is what its instances of now leave of it.
--
-- @param node text = NULL: only this node
-- @param project text = NULL: only what this project held
-- @param user text = NULL: only what this user held
-- @param model text = NULL: only GPUs of this model
-- @column as_of timestamp: the newest tick
-- @column gpus double (GPUs): installed; MIG instances count as their share of the device
-- @column held_gpus double (GPUs): given to somebody
-- @column idle_held_gpus double (GPUs): given to somebody, and allocated-empty or held-idle; but for what is rarely used
-- @column rarely_used_gpus double (GPUs): given to those who were found to use them rarely, whatever they do at this tick
-- @column free_gpus double (GPUs): held by nobody, with nothing on them
-- @column withheld_gpus double (GPUs): held by nobody, and drained, down or reserved
-- @column withheld_because text: of these, how many are what, and why: "2 drained (bad DIMM by root); 1 reserved"
-- @column unknown_gpus double (GPUs): no sample that is new enough
-- @column used_gpus double (GPUs): GPUs times utilization
-- @column bound_used_gpus double (GPUs): of these, by GPU utilization alone, an upper bound: less may be used
-- @column utilization_ratio double (ratio): mean over the GPUs whose utilization is known
-- @column power_w double (W): drawn together
-- @column memory_used_bytes bigint (bytes): used together
-- @column memory_total_bytes bigint (bytes): there together, where use is known
-- @null nothing was measured; bound_used_gpus: all was measured better; withheld_because: none is
WITH parts AS (
    SELECT
        g.gpu_id, g.uuid, g.parent_uuid, g.share_of_device, g.installed_to IS NULL AS is_installed,
        g.unlisted_from IS NOT NULL OR coalesce(l.ts + to_milliseconds(l.width_ms // 2) <= max(l.ts) OVER board, false)
            AS is_past,
        coalesce(sum(g.share_of_device) FILTER (WHERE g.installed_to IS NULL) OVER board > 1.000001, false) AS too_many
    FROM gpus AS g LEFT JOIN latest AS l USING (gpu_id)
    WINDOW board AS (PARTITION BY coalesce(g.parent_uuid, g.uuid))
), instances AS (
    SELECT
        gpu_id, parent_uuid,
        CASE WHEN is_installed AND NOT (is_past AND too_many) THEN share_of_device ELSE 0 END AS share_now
    FROM parts
    WHERE parent_uuid IS NOT NULL
), counted AS (
    SELECT gpu_id, share_now FROM instances
    UNION ALL
    SELECT b.gpu_id, greatest(1 - sum(i.share_now), 0)
    FROM parts AS b JOIN instances AS i ON i.parent_uuid = b.uuid
    GROUP BY b.gpu_id
), rows AS (
    SELECT
        n.* REPLACE (coalesce(c.share_now, n.share_of_device) AS share_of_device), state <> 'unknown' AS known,
        CASE WHEN state NOT IN ('unknown', 'suspect')
            THEN greatest(utilization_e4, CASE WHEN engines_e4 > 100 THEN engines_e4 END) END AS counted_e4
    FROM (
        SELECT * REPLACE (CASE
        WHEN state IN ('allocated-empty', 'held-idle') AND job IN (
            SELECT m.job FROM manager_jobs AS m WHERE m.state = 'paused' AND m.ended_at IS NULL) THEN 'unknown'
            ELSE state END AS state)
        FROM gpus_at_newest_tick($node, $project, $user, $model)) AS n
    LEFT JOIN counted AS c USING (gpu_id)
), because AS (
    SELECT string_agg(concat(gpus, ' ', withheld, ' (' || nullif(reason, '') || ')'), '; ' ORDER BY gpus DESC, withheld, reason)
        AS text
    FROM (
        SELECT withheld, withheld_reason AS reason, count(*) AS gpus
        FROM rows WHERE withheld <> 'unasked' AND state = withheld GROUP BY ALL)
)
SELECT
    max(as_of) AS as_of, coalesce(sum(share_of_device), 0) AS gpus,
    coalesce(sum(share_of_device) FILTER (WHERE is_held), 0) AS held_gpus,
    coalesce(sum(share_of_device) FILTER (WHERE is_held AND state IN ('allocated-empty', 'held-idle') AND rhythm IS NULL), 0) AS idle_held_gpus,
    coalesce(sum(share_of_device) FILTER (WHERE rhythm = 'rarely-used'), 0) AS rarely_used_gpus,
    coalesce(sum(share_of_device) FILTER (WHERE state = 'free'), 0) AS free_gpus,
    coalesce(sum(share_of_device) FILTER (WHERE withheld <> 'unasked' AND state = withheld), 0) AS withheld_gpus,
    (SELECT text FROM because) AS withheld_because,
    coalesce(sum(share_of_device) FILTER (WHERE NOT known), 0) AS unknown_gpus,
    sum(counted_e4 * share_of_device) / 10000.0 AS used_gpus,
    sum(counted_e4 * share_of_device) FILTER (rung = 1) / 10000.0 AS bound_used_gpus,
    sum(counted_e4 * share_of_device) / 10000.0 / sum(share_of_device) FILTER (WHERE counted_e4 IS NOT NULL)
        AS utilization_ratio,
    sum(power_mw) FILTER (WHERE known) / 1000.0 AS power_w,
    sum(memory_used_bytes) FILTER (WHERE known)::BIGINT AS memory_used_bytes,
    sum(memory_total_bytes) FILTER (WHERE known AND memory_used_bytes IS NOT NULL)::BIGINT AS memory_total_bytes
FROM rows;
