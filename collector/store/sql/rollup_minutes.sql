-- Adds the minutes of a range to rollup_1m: which state each GPU was in, for whom, and how busy.
--
-- Parameters
--   from_ms, to_ms   UTC ms, whole minutes: those to add; what is there for a GPU and minute stays
--   read_from_ms     UTC ms: samples from here on give the counters before the range
--   read_to_ms       UTC ms: samples up to here may reach back into the range
--   gpu_ids          INTEGER[]: these GPUs only; NULL: all
-- Rows added: one a (minute, GPU, holder), as the table says. A 30 s bin is wholly in one state; it is
-- unknown when samples cover less than half of it, and absent when no sample touches it, nobody withholds it and nobody is
-- known to hold it: what is told to end holds until then, what has no end until any of its job's GPUs was measured last. Its holders are
-- those at its middle, and its milliseconds are split among them by share so that integers add up. A sample as
-- wide as a bin or wider is not mixed with its neighbours: a bin that two of them share, of which one's width is no
-- multiple of a bin's, is two parts, cut where the one ends (docs/decisions/0156); any other bin is wholly the sample's
-- that covers its middle. So each sample counts for its own width, once. Energy is split by the time itself.
-- Energy of a GPU that several hold: what it draws when idle by share, what is above that by what the processes of
-- each did, if the driver tells; else all of it by share. A board that is cut into MIG instances measures energy as a
-- whole: each instance has its share of the device of it, the board the rest.
-- Where several hold a GPU, or an intruder is on it, each holder's state and use are those of its own processes, if
-- the driver tells what each of them used; else all are charged alike, by share.
-- A bin of at most 1% in which SMs were active all the same is work, of low saturation, where they were so in a third of the
-- ten minutes up to it, as far as measured; less are ticks that pass (docs/decisions/0116).
-- A bin in which memory was read or written and nothing computed is work of low saturation too: copies
-- (docs/decisions/0111).
-- NULL: memory, energy, utilization_max, controller_max: not measured.
INSERT INTO rollup_1m BY NAME
WITH wanted AS (
    SELECT gpu_id FROM gpus WHERE $gpu_ids IS NULL OR gpu_id IN (SELECT unnest($gpu_ids))
),
instances AS (
    SELECT i.gpu_id, b.gpu_id AS board_id, i.share_of_device
    FROM gpus AS i JOIN gpus AS b ON coalesce(b.cut_of, b.uuid) = i.parent_uuid
),
family AS (
    SELECT gpu_id FROM wanted
    UNION SELECT board_id FROM instances SEMI JOIN wanted USING (gpu_id)
    UNION SELECT i.gpu_id FROM instances AS i JOIN wanted AS w ON w.gpu_id = i.board_id
),
-- A GPU that was cut anew is another row before and after: a bin belongs to one of them.
cuts AS (
    SELECT gpu_id, epoch_ms(cut_from) AS cut_from_ms, epoch_ms(installed_to) AS cut_to_ms
    FROM gpus WHERE cut_of IS NOT NULL OR cut_from IS NOT NULL
),
-- One order for all GPUs at once: parts by GPU would be thousands of small ones.
near AS (
    SELECT
        gpu_id, width_ms, rung, utilization_e4, gpu_utilization_e4, graphics_active_e4, sm_active_e4,
        encoder_e4, decoder_e4, jpeg_e4, ofa_e4, memory_controller_e4, dram_active_e4, power_mw, memory_used_bytes, process_count,
        epoch_ms(ts) AS end_ms,
        CASE
            WHEN lag(gpu_id) OVER by_time = gpu_id AND energy_mj - lag(energy_mj) OVER by_time >= 0
                THEN (energy_mj - lag(energy_mj) OVER by_time)
                    * least(1.0, width_ms / (epoch_ms(ts) - epoch_ms(lag(ts) OVER by_time)))
            WHEN lag(gpu_id) OVER by_time = gpu_id  -- what two sources told of one moment is used once
                THEN power_mw * (least(width_ms, epoch_ms(ts) - epoch_ms(lag(ts) OVER by_time)) / 1000.0)
            ELSE power_mw * (width_ms / 1000.0)
        END AS used_energy_mj
    FROM samples_all
    WHERE ts > epoch_ms(CAST($read_from_ms AS BIGINT))
      AND ts < epoch_ms(CAST($read_to_ms AS BIGINT))
      AND gpu_id IN (SELECT gpu_id FROM family)
    WINDOW by_time AS (ORDER BY gpu_id, ts)
),
touched AS (
    SELECT
        * EXCLUDE (bin, cut_from_ms, cut_to_ms),
        bin,
        least(end_ms, (bin + 1) * 30000) - greatest(end_ms - width_ms, bin * 30000) AS within_ms
    FROM (
        SELECT *, unnest(range((end_ms - width_ms) // 30000, (end_ms - 1) // 30000 + 1)) AS bin
        FROM near
    )
    LEFT JOIN cuts USING (gpu_id)
    WHERE bin >= $from_ms // 30000 AND bin < $to_ms // 30000
        AND bin * 30000 >= coalesce(cut_from_ms, 0) AND bin * 30000 < coalesce(cut_to_ms, $to_ms)
),
-- Bins in which one wide sample ends and the next begins, and how much of them is the first one's. What neither covers
-- is shared out between both, where that is less than half.
divided_bins AS (
    SELECT
        gpu_id, bin, min(end_ms) AS first_end_ms,
        min(end_ms) - bin * 30000 AS first_ms, (bin + 1) * 30000 - greatest(max(end_ms - width_ms), min(end_ms)) AS second_ms,
        CAST(round(30000 * first_ms / (first_ms + second_ms)) AS BIGINT) AS cut_ms
    FROM touched
    SEMI JOIN (SELECT DISTINCT gpu_id FROM near WHERE width_ms > 30000 AND width_ms % 30000 > 0) USING (gpu_id)
    GROUP BY gpu_id, bin
    HAVING count(*) = 2 AND min(width_ms) >= 30000 AND max(width_ms % 30000) > 0 AND min(end_ms) < (bin + 1) * 30000
        AND max(end_ms - width_ms) > bin * 30000 AND first_ms + second_ms >= 15000
),
-- piece: 1 and 2 of a bin that is divided, else 0; piece_ms: how long that is.
parts AS (
    SELECT
        t.*,
        CASE WHEN d.bin IS NULL THEN 0 WHEN t.end_ms = d.first_end_ms THEN 1 ELSE 2 END AS piece,
        CASE piece WHEN 0 THEN 30000 WHEN 1 THEN d.cut_ms ELSE 30000 - d.cut_ms END AS piece_ms,
        CASE
            WHEN piece > 0 THEN piece_ms
            WHEN width_ms < 30000 THEN within_ms
            WHEN end_ms - width_ms <= bin * 30000 + 15000 AND end_ms > bin * 30000 + 15000 THEN 30000
        END AS whole_ms,
        CAST(whole_ms AS DOUBLE) AS ms
    FROM touched AS t LEFT JOIN divided_bins AS d USING (gpu_id, bin)
),
held AS (
    SELECT gpu_id, holder_id, sum(share) AS share, bin
    FROM (
        SELECT
            gpu_id, holder_id, share,
            unnest(range(
                greatest((epoch_ms(from_ts) + 14999) // 30000, $from_ms // 30000),
                least((coalesce(epoch_ms(to_ts), $to_ms + 30000) + 14999) // 30000, $to_ms // 30000)
            )) AS bin
        FROM allocations
        WHERE from_ts < epoch_ms(CAST($to_ms AS BIGINT))
          AND (to_ts IS NULL OR to_ts > epoch_ms(CAST($from_ms AS BIGINT)))
          AND gpu_id IN (SELECT gpu_id FROM wanted)
    )
    GROUP BY gpu_id, holder_id, bin
),
out_of_service AS (
    SELECT gpu_id, bin, bool_and(state = 'unasked') AS unasked
    FROM (
        SELECT gpu_id, state, unnest(range(
            greatest((epoch_ms(from_ts) + 14999) // 30000, $from_ms // 30000),
            least((coalesce(epoch_ms(to_ts), $to_ms + 30000) + 14999) // 30000, $to_ms // 30000)
        )) AS bin
        FROM withheld
        WHERE from_ts < epoch_ms(CAST($to_ms AS BIGINT))
          AND (to_ts IS NULL OR to_ts > epoch_ms(CAST($from_ms AS BIGINT)))
    )
    GROUP BY gpu_id, bin
),
metered AS (
    SELECT
        gpu_id,
        bin,
        piece,
        piece_ms,
        piece > 0 OR coalesce(sum(ms), 0) >= 15000 AS covered,
        sum(utilization_e4 * ms) / sum(CASE WHEN utilization_e4 IS NOT NULL THEN ms END) AS utilization_e4,
        sum(gpu_utilization_e4 * ms) / sum(CASE WHEN gpu_utilization_e4 IS NOT NULL THEN ms END) AS gpu_utilization_e4,
        sum(graphics_active_e4 * ms) / sum(CASE WHEN graphics_active_e4 IS NOT NULL THEN ms END) AS graphics_active_e4,
        sum(sm_active_e4 * ms) / sum(CASE WHEN sm_active_e4 IS NOT NULL THEN ms END) AS sm_active_e4,
        greatest(
            sum(encoder_e4 * ms) / sum(CASE WHEN encoder_e4 IS NOT NULL THEN ms END),
            sum(decoder_e4 * ms) / sum(CASE WHEN decoder_e4 IS NOT NULL THEN ms END),
            sum(jpeg_e4 * ms) / sum(CASE WHEN jpeg_e4 IS NOT NULL THEN ms END),
            sum(ofa_e4 * ms) / sum(CASE WHEN ofa_e4 IS NOT NULL THEN ms END)
        ) AS engines_e4,
        greatest(
            sum(memory_controller_e4 * ms) / sum(CASE WHEN memory_controller_e4 IS NOT NULL THEN ms END),
            sum(dram_active_e4 * ms) / sum(CASE WHEN dram_active_e4 IS NOT NULL THEN ms END)
        ) AS traffic_e4,
        sum(power_mw * ms) / sum(CASE WHEN power_mw IS NOT NULL THEN ms END) AS power_mw,
        sum(memory_used_bytes * ms) / sum(CASE WHEN memory_used_bytes IS NOT NULL THEN ms END) AS memory_used_bytes,
        max(memory_used_bytes) FILTER (ms IS NOT NULL) AS memory_used_max_bytes,
        max(process_count) FILTER (ms IS NOT NULL) AS process_count,
        max(utilization_e4) FILTER (ms IS NOT NULL) AS utilization_max_e4,
        max(memory_controller_e4) FILTER (ms IS NOT NULL AND utilization_e4 > 100) AS controller_max_e4,
        min(rung) FILTER (utilization_e4 IS NOT NULL AND ms IS NOT NULL) AS rung,
        CAST(round(sum(used_energy_mj * CAST(within_ms AS DOUBLE) / width_ms)) AS BIGINT) AS energy_mj,
        least(30000, coalesce(sum(within_ms) FILTER (used_energy_mj IS NOT NULL), 0)) AS energy_ms
    FROM parts
    GROUP BY gpu_id, bin, piece, piece_ms
),
-- SMs that were active in bins that are noise by the 1% (10,000 parts: 1 is the smallest that is kept), and in the bins of
-- the 20 up to each in which they were measured, a third or more.
faint AS (
    SELECT gpu_id, bin, piece
    FROM metered
    WHERE covered AND rung = 3 AND utilization_e4 >= 1
        AND busiest_of(utilization_e4, gpu_utilization_e4, graphics_active_e4, sm_active_e4, engines_e4) <= 100
),
levels AS (
    SELECT gpu_id, bin, piece, utilization_e4 >= 1 AS is_active
    FROM metered SEMI JOIN faint USING (gpu_id)
    WHERE rung = 3 AND utilization_e4 IS NOT NULL
    UNION ALL  -- a sample is in the bin of its middle, a wider one than a bin in those whose middles it covers
    SELECT gpu_id, bin, 0 AS piece, avg(utilization_e4) >= 1 AS is_active
    FROM (
        SELECT
            gpu_id, utilization_e4,
            unnest(CASE WHEN width_ms <= 30000 THEN [(end_ms - width_ms // 2 - 1) // 30000]
                ELSE range((end_ms - width_ms + 14999) // 30000, (end_ms + 14999) // 30000) END) AS bin
        FROM (
            SELECT s.gpu_id, s.utilization_e4, s.width_ms, epoch_ms(s.ts) AS end_ms
            FROM samples_all AS s SEMI JOIN faint USING (gpu_id)
            WHERE s.ts > epoch_ms(CAST($from_ms - 600000 AS BIGINT))
              AND s.ts < epoch_ms(CAST($from_ms + 30000 AS BIGINT)) AND s.rung = 3 AND s.utilization_e4 IS NOT NULL)
    )
    WHERE bin < $from_ms // 30000
    GROUP BY gpu_id, bin
),
thin AS (
    SELECT gpu_id, bin, piece
    FROM (
        SELECT gpu_id, bin, piece, avg(is_active::INTEGER) OVER (
            PARTITION BY gpu_id ORDER BY bin RANGE BETWEEN 19 PRECEDING AND CURRENT ROW) AS active_ratio
        FROM levels)
    SEMI JOIN faint USING (gpu_id, bin, piece)
    WHERE active_ratio >= 0.333
),
of_boards AS (
    SELECT
        i.board_id, i.gpu_id, m.bin, m.piece, CAST(floor(b.energy_mj * i.share_of_device) AS BIGINT) AS energy_mj, b.energy_ms
    FROM instances AS i
    JOIN metered AS m ON m.gpu_id = i.gpu_id AND m.energy_mj IS NULL
    JOIN metered AS b ON b.gpu_id = i.board_id AND b.bin = m.bin AND b.piece = m.piece
),
-- A node that is down shows no samples: its GPUs are withheld all the same, while they are installed. Where their
-- source leaves them out (an autoscaler took them) nobody withholds them.
unseen AS (
    SELECT o.gpu_id, o.bin
    FROM out_of_service AS o
    JOIN gpus AS g ON g.gpu_id = o.gpu_id AND g.unlisted_from IS NULL AND o.bin * 30000 >= epoch_ms(g.installed_from)
        AND (g.installed_to IS NULL OR (o.bin + 1) * 30000 <= epoch_ms(g.installed_to))
    ANTI JOIN metered AS m ON m.gpu_id = o.gpu_id AND m.bin = o.bin
    ANTI JOIN held AS h ON h.gpu_id = o.gpu_id AND h.bin = o.bin
    WHERE NOT o.unasked AND o.gpu_id IN (SELECT gpu_id FROM wanted)
),
-- A GPU of which no row came was given all the same, while its hold is known to last: unknown time, as a row without
-- values would be.
silent AS (
    SELECT h.gpu_id, h.holder_id, h.bin
    FROM held AS h
    JOIN gpus AS g ON g.gpu_id = h.gpu_id AND h.bin * 30000 >= epoch_ms(g.installed_from)
        AND (g.installed_to IS NULL OR (h.bin + 1) * 30000 <= epoch_ms(g.installed_to))
    ANTI JOIN metered AS m ON m.gpu_id = h.gpu_id AND m.bin = h.bin
),
known_to_last AS (
    SELECT s.gpu_id, s.holder_id, max(coalesce(a.to_ts, n.newest_ts)) AS until_ts
    FROM (SELECT DISTINCT gpu_id, holder_id FROM silent) AS s
    JOIN allocations AS a ON a.gpu_id = s.gpu_id AND a.holder_id = s.holder_id
    LEFT JOIN (
        SELECT a.holder_id, max(s.ts) AS newest_ts
        FROM allocations AS a
        JOIN samples_all AS s ON s.gpu_id = a.gpu_id AND s.ts > a.from_ts AND s.ts > epoch_ms(CAST($from_ms AS BIGINT))
        WHERE a.to_ts IS NULL AND a.holder_id IN (SELECT holder_id FROM silent)
        GROUP BY a.holder_id
    ) AS n ON n.holder_id = s.holder_id
    GROUP BY s.gpu_id, s.holder_id
),
unmeasured AS (
    SELECT gpu_id, bin FROM unseen
    UNION
    SELECT s.gpu_id, s.bin FROM silent AS s
    JOIN known_to_last AS k ON k.gpu_id = s.gpu_id AND k.holder_id = s.holder_id AND s.bin * 30000 + 15000 < epoch_ms(k.until_ts)
),
bins AS (
    SELECT m.* REPLACE (
        coalesce(o.energy_mj, m.energy_mj - coalesce(given.energy_mj, 0)) AS energy_mj,
        coalesce(o.energy_ms, m.energy_ms) AS energy_ms)
    FROM metered AS m
    LEFT JOIN of_boards AS o ON o.gpu_id = m.gpu_id AND o.bin = m.bin AND o.piece = m.piece
    LEFT JOIN (
        SELECT board_id, bin, piece, sum(energy_mj)::BIGINT AS energy_mj FROM of_boards GROUP BY board_id, bin, piece
    ) AS given ON given.board_id = m.gpu_id AND given.bin = m.bin AND given.piece = m.piece
    WHERE m.gpu_id IN (SELECT gpu_id FROM wanted)
    UNION ALL BY NAME
    SELECT gpu_id, bin, 0 AS piece, 30000 AS piece_ms, false AS covered, 0 AS energy_ms FROM unmeasured
),
-- Most GPUs have one holder, who has all of it: no windows for those.
alone AS (
    SELECT gpu_id FROM held GROUP BY gpu_id HAVING min(holder_id) = max(holder_id)
),
claims AS (
    SELECT gpu_id, bin, holder_id, 0.0::DOUBLE AS lower_fraction, 1.0::DOUBLE AS upper_fraction
    FROM held SEMI JOIN alone USING (gpu_id)
    UNION ALL
    SELECT
        gpu_id, bin, holder_id,
        coalesce(sum(share) OVER before / sum(share) OVER whole, 0) AS lower_fraction,
        CASE
            WHEN row_number() OVER up_to = count(*) OVER whole THEN 1
            ELSE sum(share) OVER up_to / sum(share) OVER whole
        END AS upper_fraction
    FROM held ANTI JOIN alone USING (gpu_id)
    WINDOW
        whole AS (PARTITION BY gpu_id, bin),
        up_to AS (PARTITION BY gpu_id, bin ORDER BY holder_id ROWS UNBOUNDED PRECEDING),
        before AS (
            PARTITION BY gpu_id, bin ORDER BY holder_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        )
),
-- What processes used of the GPUs that several hold or that an intruder is on, as far as the driver tells: it has a
-- sample of each process that did something, so one without a sample beside others with one did nothing.
divided AS (
    SELECT gpu_id FROM held ANTI JOIN alone USING (gpu_id)
    UNION
    SELECT gpu_id FROM intrusions
    WHERE from_ts < epoch_ms(CAST($to_ms AS BIGINT)) AND (to_ts IS NULL OR to_ts > epoch_ms(CAST($from_ms AS BIGINT)))
),
touching AS (
    SELECT
        gpu_id, process_id, sm_e4, bin,
        least(end_ms, (bin + 1) * 30000) - greatest(end_ms - width_ms, bin * 30000) AS ms
    FROM (
        SELECT *, unnest(range((end_ms - width_ms) // 30000, (end_ms - 1) // 30000 + 1)) AS bin
        FROM (
            SELECT gpu_id, process_id, sm_e4, width_ms, epoch_ms(ts) AS end_ms
            FROM process_samples SEMI JOIN divided USING (gpu_id)
            WHERE ts > epoch_ms(CAST($from_ms AS BIGINT)) AND ts < epoch_ms(CAST($read_to_ms AS BIGINT))
              AND gpu_id IN (SELECT gpu_id FROM wanted))
    )
    WHERE bin >= $from_ms // 30000 AND bin < $to_ms // 30000
),
by_process AS (
    SELECT gpu_id, bin, process_id, sum(coalesce(sm_e4, 0) * ms) AS work
    FROM touching GROUP BY gpu_id, bin, process_id
),
-- A process is its job's; where that is not known, its person's, if one of the holders is.
persons AS (
    SELECT h.gpu_id, h.bin, o.user_name, min(h.holder_id) AS holder_id
    FROM held AS h SEMI JOIN divided USING (gpu_id) JOIN holders AS o USING (holder_id)
    WHERE o.user_name IS NOT NULL
    GROUP BY h.gpu_id, h.bin, o.user_name
    HAVING count(*) = 1
),
intruding AS (
    SELECT DISTINCT gpu_id, process_id FROM intrusions
),
owned AS (
    SELECT
        b.gpu_id, b.bin, b.work, i.process_id IS NOT NULL AS intrudes,
        CASE WHEN i.process_id IS NULL
            THEN coalesce(j.holder_id, CASE WHEN p.holder_id IS NULL THEN u.holder_id END) END AS owner_id
    FROM by_process AS b
    JOIN processes AS p USING (process_id)
    LEFT JOIN held AS j ON j.gpu_id = b.gpu_id AND j.bin = b.bin AND j.holder_id = p.holder_id
    LEFT JOIN persons AS u ON u.gpu_id = b.gpu_id AND u.bin = b.bin AND u.user_name = p.user_name
    LEFT JOIN intruding AS i ON i.gpu_id = b.gpu_id AND i.process_id = b.process_id
),
-- What an exporter tells of whole pods, where nothing is told of processes: a pod without a row beside one with one did
-- nothing.
by_holder AS (
    SELECT gpu_id, bin, holder_id, sum(used_e4 * ms) AS work
    FROM (
        SELECT
            gpu_id, holder_id, used_e4, bin,
            least(end_ms, (bin + 1) * 30000) - greatest(end_ms - width_ms, bin * 30000) AS ms
        FROM (
            SELECT *, unnest(range((end_ms - width_ms) // 30000, (end_ms - 1) // 30000 + 1)) AS bin
            FROM (
                SELECT gpu_id, holder_id, gpu_utilization_e4 AS used_e4, width_ms, epoch_ms(ts) AS end_ms
                FROM holder_samples SEMI JOIN divided USING (gpu_id)
                WHERE ts > epoch_ms(CAST($from_ms AS BIGINT)) AND ts < epoch_ms(CAST($read_to_ms AS BIGINT))
                  AND gpu_id IN (SELECT gpu_id FROM wanted) AND gpu_utilization_e4 IS NOT NULL)
        )
        WHERE bin >= $from_ms // 30000 AND bin < $to_ms // 30000
    )
    ANTI JOIN by_process USING (gpu_id, bin)
    GROUP BY gpu_id, bin, holder_id
),
told AS (
    SELECT gpu_id, bin, work, intrudes, owner_id FROM owned
    UNION ALL
    SELECT b.gpu_id, b.bin, b.work, false AS intrudes, h.holder_id AS owner_id
    FROM by_holder AS b LEFT JOIN held AS h USING (gpu_id, bin, holder_id)
),
own_work AS (
    SELECT gpu_id, bin, owner_id AS holder_id, sum(work) AS own_work
    FROM told WHERE owner_id IS NOT NULL GROUP BY gpu_id, bin, owner_id
),
-- Only where it is known whose each process is.
all_work AS (
    SELECT gpu_id, bin, sum(work) AS all_work
    FROM told GROUP BY gpu_id, bin
    HAVING sum(work) > 0 AND bool_and(owner_id IS NOT NULL OR intrudes)
),
-- The same as fractions of what all holders did, for the energy: an intruder's part is borne by them all.
worked AS (
    SELECT
        gpu_id, bin, holder_id,
        coalesce(sum(work) OVER before, 0) / sum(work) OVER whole AS lower_work,
        CASE WHEN row_number() OVER up_to = count(*) OVER whole THEN 1
            ELSE sum(work) OVER up_to / sum(work) OVER whole END AS upper_work
    FROM (
        SELECT h.gpu_id, h.bin, h.holder_id, coalesce(o.own_work, 0) AS work
        FROM held AS h ANTI JOIN alone USING (gpu_id)
        SEMI JOIN all_work USING (gpu_id, bin)
        LEFT JOIN own_work AS o USING (gpu_id, bin, holder_id)
    )
    WINDOW
        whole AS (PARTITION BY gpu_id, bin),
        up_to AS (PARTITION BY gpu_id, bin ORDER BY holder_id ROWS UNBOUNDED PRECEDING),
        before AS (
            PARTITION BY gpu_id, bin ORDER BY holder_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        )
    QUALIFY sum(work) OVER whole > 0
),
apart AS (
    SELECT
        bins.*, holder_id, coalesce(lower_fraction, 0) AS lower_fraction, coalesce(upper_fraction, 1) AS upper_fraction,
        CASE WHEN coalesce(engines_e4, 0) <= 100 THEN lower_work END AS lower_work,
        CASE WHEN coalesce(engines_e4, 0) <= 100 THEN upper_work END AS upper_work,
        CASE WHEN holder_id IS NOT NULL AND coalesce(engines_e4, 0) <= 100 AND all_work IS NOT NULL
            THEN coalesce(own_work, 0) / all_work END AS part,
        thin.bin IS NOT NULL AS is_thin
    FROM bins
    LEFT JOIN thin USING (gpu_id, bin, piece)
    LEFT JOIN claims USING (gpu_id, bin)
    LEFT JOIN all_work USING (gpu_id, bin)
    LEFT JOIN own_work USING (gpu_id, bin, holder_id)
    LEFT JOIN worked USING (gpu_id, bin, holder_id)
),
seen AS (
    SELECT
        apart.*,
        busiest_of(utilization_e4 * coalesce(part, 1), gpu_utilization_e4 * coalesce(part, 1),
            graphics_active_e4 * coalesce(part, 1), sm_active_e4 * coalesce(part, 1), engines_e4) AS own_busiest_e4,
        is_copying(busiest_of(utilization_e4, gpu_utilization_e4, graphics_active_e4, sm_active_e4, engines_e4), traffic_e4)
            AND NOT (is_thin AND coalesce(utilization_e4 >= 1, false)) AS is_copied,
        CASE
            -- idle by what was done on the GPU, low or good by how much of its share a holder filled
            WHEN covered THEN gpu_state_of(
                holder_id IS NOT NULL,
                process_is_present(process_count, memory_used_bytes, memory_total_bytes, memory_free_bytes,
                    own_busiest_e4),
                process_count,
                coalesce(memory_used_bytes > idle_memory_floor_bytes(memory_total_bytes), false),
                own_busiest_e4,
                CASE WHEN upper_fraction > lower_fraction
                    THEN least(10000, utilization_e4 * coalesce(part / (upper_fraction - lower_fraction), 1))
                    ELSE utilization_e4 * coalesce(part, 1) END,
                engines_e4, gpu_utilization_e4 * coalesce(part, 1), power_mw, idle_power_mw,
                power_denies_idle(
                    busiest_of(utilization_e4, gpu_utilization_e4, graphics_active_e4, sm_active_e4, engines_e4),
                    power_mw, idle_power_mw, power_limit_mw, mig_profile),
                is_copied OR coalesce(is_thin AND utilization_e4 * coalesce(part, 1) >= 1, false)
            )
            ELSE 0
        END AS seen_state,
        least(energy_mj, CAST(round(idle_power_mw * (energy_ms / 1000.0)) AS BIGINT)) AS idle_energy_mj
    FROM apart
    JOIN gpus USING (gpu_id)
),
judged AS (
    SELECT
        seen.* EXCLUDE (seen_state),
        -- what is withheld from everybody is not free; nor is it known to be where nobody could be asked
        CASE
            WHEN seen_state = 3 AND holder_id IS NULL THEN 7  -- idle, and nobody's: no waste (docs/decisions/0081)
            WHEN seen_state = 1 AND w.unasked THEN 0
            WHEN seen_state <= 1 AND NOT w.unasked AND holder_id IS NULL THEN 8
            ELSE seen_state
        END AS state
    FROM seen
    LEFT JOIN out_of_service AS w ON w.gpu_id = seen.gpu_id AND w.bin = seen.bin
),
split AS (
    SELECT
        *,
        CAST(part_of(piece_ms, lower_fraction, upper_fraction) AS DOUBLE) AS part_ms,
        -- what the busiest part of the GPU did; an engine at the bound of noise says nothing
        greatest(utilization_e4, CASE WHEN engines_e4 > 100 THEN engines_e4 END) AS activity_e4,
        activity_e4 * piece_ms / 10000 AS active_ms,
        covered AND state <> 7 AND activity_e4 IS NOT NULL AS counts,
        CASE WHEN lower_work IS NULL OR idle_energy_mj IS NULL
            THEN part_of(energy_mj, lower_fraction, upper_fraction)
            ELSE part_of(idle_energy_mj, lower_fraction, upper_fraction)
                + part_of(energy_mj - idle_energy_mj, lower_work, upper_work) END AS own_energy_mj,
        CASE WHEN energy_mj IS NULL THEN 0 ELSE part_of(energy_ms, lower_fraction, upper_fraction) END AS own_energy_ms
    FROM judged
),
made AS (
    SELECT
        epoch_ms(CAST(bin // 2 * 60000 AS BIGINT)) AS ts,
        gpu_id,
        holder_id,
        sum(CASE WHEN state = 1 THEN part_ms ELSE 0 END) AS free_ms,
        sum(CASE WHEN state = 2 THEN part_ms ELSE 0 END) AS allocated_empty_ms,
        sum(CASE WHEN state = 3 THEN part_ms ELSE 0 END) AS held_idle_ms,
        sum(CASE WHEN state = 4 THEN part_ms ELSE 0 END) AS low_saturation_ms,
        sum(CASE WHEN state = 4 AND own_busiest_e4 <= 100 THEN part_ms ELSE 0 END) AS faint_ms,
        sum(CASE WHEN state = 4 AND is_copied THEN part_ms ELSE 0 END) AS copied_ms,
        sum(CASE WHEN state = 5 THEN part_ms ELSE 0 END) AS moderate_ms,
        sum(CASE WHEN state = 6 THEN part_ms ELSE 0 END) AS good_ms,
        sum(CASE WHEN state = 7 THEN part_ms ELSE 0 END) AS suspect_ms,
        sum(CASE WHEN state = 8 THEN part_ms ELSE 0 END) AS withheld_ms,
        sum(CASE WHEN state = 0 THEN part_ms ELSE 0 END) AS unknown_ms,
        sum(CASE WHEN holder_id IS NOT NULL THEN part_ms ELSE 0 END) AS held_ms,
        sum(CASE WHEN counts THEN part_ms ELSE 0 END) AS measured_ms,
        sum(CASE WHEN counts
            THEN coalesce(CAST(round(active_ms * part) AS BIGINT),
                part_of(round(active_ms), lower_fraction, upper_fraction)) ELSE 0 END) AS used_ms,
        sum(CASE WHEN counts AND activity_e4 > coalesce(utilization_e4, 0)
            THEN part_of(round(active_ms), lower_fraction, upper_fraction)
                - part_of(round(coalesce(utilization_e4, 0) * piece_ms / 10000), lower_fraction, upper_fraction)
            ELSE 0 END) AS engines_ms,
        max(utilization_max_e4) AS utilization_max_e4,
        max(controller_max_e4) AS controller_max_e4,
        coalesce(min(rung) FILTER (counts), 0) AS rung,
        CAST(sum(memory_used_bytes * piece_ms) / sum(piece_ms) FILTER (memory_used_bytes IS NOT NULL) AS BIGINT) AS memory_used_mean_bytes,
        max(memory_used_max_bytes) AS memory_used_max_bytes,
        sum(own_energy_mj) AS energy_mj,
        sum(own_energy_mj) FILTER (state = 1) AS free_energy_mj,
        sum(own_energy_mj) FILTER (state = 2) AS allocated_empty_energy_mj,
        sum(own_energy_mj) FILTER (state = 3) AS held_idle_energy_mj,
        sum(own_energy_mj) FILTER (state = 4) AS low_saturation_energy_mj,
        sum(own_energy_mj) FILTER (state = 5) AS moderate_energy_mj,
        sum(own_energy_mj) FILTER (state = 6) AS good_energy_mj,
        sum(own_energy_mj) FILTER (state = 7) AS suspect_energy_mj,
        sum(own_energy_mj) FILTER (state = 8) AS withheld_energy_mj,
        sum(own_energy_mj) FILTER (state = 0) AS unknown_energy_mj,
        sum(own_energy_ms) AS energy_ms,
        sum(own_energy_ms) AS state_energy_ms,
        coalesce(sum(own_energy_ms) FILTER (state IN (2, 3)), 0) AS wasted_energy_ms
    FROM split
    GROUP BY bin // 2, gpu_id, holder_id
)
SELECT made.*
FROM made
ANTI JOIN (
    SELECT ts, gpu_id
    FROM rollup_1m
    WHERE ts >= epoch_ms(CAST($from_ms AS BIGINT)) AND ts < epoch_ms(CAST($to_ms AS BIGINT))
) AS there USING (ts, gpu_id)
ORDER BY ts, gpu_id, holder_id;
