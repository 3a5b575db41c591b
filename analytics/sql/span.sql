-- What the store holds: from when to when, of how many GPUs.
--
-- @column first_ts timestamp: start of the first sample there ever was
-- @column last_ts timestamp: the newest sample
-- @column complete_to timestamp: end of the newest minute that is rolled up; a window that ends later ends in unknown time
-- @column nodes bigint: machines ever seen
-- @column gpus bigint: GPUs and MIG instances installed now
-- @column holders bigint: jobs ever seen
-- @column samples bigint: samples kept, sealed days included
-- @null nothing was stored yet
SELECT
    (SELECT min(installed_from) FROM gpus) AS first_ts,
    (SELECT max(ts) FROM latest) AS last_ts,
    (SELECT max(complete_to) FROM watermarks WHERE name = 'rollup_1m') AS complete_to,
    (SELECT count(DISTINCT node) FROM gpus) AS nodes,
    (SELECT count(*) FROM gpus WHERE installed_to IS NULL) AS gpus,
    (SELECT count(*) FROM holders) AS holders,
    ((SELECT count(*) FROM samples) + coalesce((SELECT sum(samples) FROM sealed), 0))::BIGINT AS samples;
