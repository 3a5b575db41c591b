-- When the power of GPUs fell to where it is now and stayed there, under the same holder, from the minutes of seven days.
--
-- Now is the newest hour. It fell at the end of the newest minute that drew half as much again; before are the sixty
-- measured minutes that end there, and their median is what it drew then.
--
-- @param as_of instant: the instant
-- @param gpu_ids counts: the GPUs, each held by one job alone
-- @column gpu_id integer: the GPU
-- @column fell_ms bigint (ms): when it fell
-- @column before_mw double (mW): what it drew before that
-- @column now_mw double (mW): what it draws now, on average
-- @column measured_ratio double (ratio): of the time since then, how much was measured
-- @null none is: without such a minute there is no row
WITH claims AS (
    SELECT gpu_id, holder_id, from_ts FROM holds_at($as_of) WHERE gpu_id IN (SELECT unnest($gpu_ids))
), minutes AS (
    SELECT u.gpu_id, u.ts, 1000.0 * u.energy_mj / u.energy_ms AS power_mw, u.energy_ms
    FROM rollup_1m AS u
    JOIN claims AS c ON c.gpu_id = u.gpu_id AND c.holder_id = u.holder_id AND u.ts >= c.from_ts
    WHERE u.ts >= $as_of - INTERVAL 7 DAY AND u.ts < $as_of AND u.energy_ms > 0
), now_drawn AS (
    SELECT gpu_id, avg(power_mw) AS now_mw FROM minutes WHERE ts >= $as_of - INTERVAL 1 HOUR GROUP BY gpu_id
), falls AS (
    SELECT m.gpu_id, n.now_mw, max(m.ts) + INTERVAL 1 MINUTE AS fell
    FROM minutes AS m JOIN now_drawn AS n USING (gpu_id)
    WHERE m.power_mw > 1.5 * n.now_mw
    GROUP BY m.gpu_id, n.now_mw
), before AS (
    SELECT m.gpu_id, median(m.power_mw) AS before_mw
    FROM (
        SELECT m.*, row_number() OVER (PARTITION BY m.gpu_id ORDER BY m.ts DESC) AS turn
        FROM minutes AS m JOIN falls AS f ON f.gpu_id = m.gpu_id AND m.ts < f.fell
    ) AS m
    WHERE turn <= 60
    GROUP BY m.gpu_id
), since AS (
    SELECT m.gpu_id, sum(m.energy_ms) AS known_ms
    FROM minutes AS m JOIN falls AS f ON f.gpu_id = m.gpu_id AND m.ts >= f.fell
    GROUP BY m.gpu_id
)
SELECT
    f.gpu_id, epoch_ms(f.fell) AS fell_ms, b.before_mw::DOUBLE AS before_mw, f.now_mw::DOUBLE AS now_mw,
    -- the newest two minutes may not be rolled up yet
    least(1.0, s.known_ms / greatest(1, epoch_ms($as_of) - epoch_ms(f.fell) - 120000))::DOUBLE AS measured_ratio
FROM falls AS f JOIN before AS b USING (gpu_id) JOIN since AS s USING (gpu_id)
ORDER BY f.gpu_id;
