-- What was wasted in the window: the one sum that every screen, verb and report shows, and how much of it findings name.
--
-- A GPU-hour counts once, however many findings there are about its GPU and its holder. Low saturation is no waste, and
-- stands beside it.
--
-- @param from_ts minute: start of the window
-- @param to_ts minute: end of the window, exclusive
-- @param node text = NULL: only this node
-- @param project text = NULL: only what this project held
-- @param user text = NULL: only what this user held
-- @param model text = NULL: only GPUs of this model
-- @mark hours_to rollup_1h
-- @mark days_to rollup_1d
-- @column held_gpu_hours double (GPU-hours): given to somebody
-- @column wasted_gpu_hours double (GPU-hours): of these, allocated-empty or held-idle
-- @column allocated_empty_gpu_hours double (GPU-hours): held, and no process on it
-- @column held_idle_gpu_hours double (GPU-hours): a process, and at most 1% busy
-- @column low_saturation_gpu_hours double (GPU-hours): busy, under 25%; no part of the waste
-- @column bound_used_gpu_hours double (GPU-hours): used by GPU utilization alone, where low saturation is not seen
-- @column wasted_cost double (currency): of wasted_gpu_hours
-- @column currency text: of the cost
-- @column open_gpu_hours double (GPU-hours): of the waste, by holders on GPUs of which a finding is open
-- @column found_gpu_hours double (GPU-hours): of the waste, by holders on GPUs of which anything was found in the window
-- @column wasted_energy_kwh double (kWh): used while wasted
-- @column wasted_energy_known_ratio double (ratio): the part of wasted_gpu_hours of which energy is known
-- @never_null held_gpu_hours, wasted_gpu_hours, allocated_empty_gpu_hours, held_idle_gpu_hours,
--   low_saturation_gpu_hours, bound_used_gpu_hours, open_gpu_hours, found_gpu_hours
-- @null wasted_cost: some of the hours have no price, or currencies differ; wasted_energy_kwh: not measured; its ratio: no waste
WITH chosen AS (
    SELECT gpu_id, share_of_device FROM gpus
    WHERE ($node IS NULL OR node = $node) AND ($model IS NULL OR model = $model)
), named AS (
    SELECT gpu_id, holder_id, bool_or(closed_at IS NULL) AS open
    FROM findings
    WHERE holder_id IS NOT NULL AND opened_at <= $to_ts AND (closed_at IS NULL OR closed_at > $from_ts)
    GROUP BY gpu_id, holder_id
), spent AS (
    SELECT gpu_id, holder_id, sum(allocated_empty_ms + held_idle_ms)::BIGINT AS wasted_ms
    FROM usage_of($from_ts, $to_ts, $hours_to, $days_to, $project, $user)
    SEMI JOIN named USING (gpu_id, holder_id)
    GROUP BY gpu_id, holder_id
), of_findings AS (
    SELECT
        coalesce(sum_hours(CASE WHEN open THEN wasted_ms END, share_of_device), 0.0) AS open_gpu_hours,
        coalesce(sum_hours(wasted_ms, share_of_device), 0.0) AS found_gpu_hours
    FROM spent JOIN named USING (gpu_id, holder_id) JOIN chosen USING (gpu_id)
), sums AS (
    SELECT
        coalesce(sum_hours(held_ms, share_of_device), 0.0) AS held_gpu_hours,
        coalesce(sum_hours(wasted_ms, share_of_device), 0.0) AS wasted_gpu_hours,
        coalesce(sum_hours(allocated_empty_ms, share_of_device), 0.0) AS allocated_empty_gpu_hours,
        coalesce(sum_hours(held_idle_ms, share_of_device), 0.0) AS held_idle_gpu_hours,
        coalesce(sum_hours(low_saturation_ms, share_of_device), 0.0) AS low_saturation_gpu_hours,
        coalesce(sum_hours(bound_used_ms, share_of_device), 0.0) AS bound_used_gpu_hours,
        sum_money(wasted_ms, share_of_device, per_gpu_hour, currency) AS wasted_cost, one_currency(currency) AS currency,
        energy_kwh(wasted_energy_mj, wasted_energy_ms, wasted_ms) AS wasted_energy_kwh,
        sum_ratio(wasted_energy_ms, wasted_ms, share_of_device) AS wasted_energy_known_ratio
    FROM gpu_rows($from_ts, $to_ts, $hours_to, $days_to, $node, $project, $user, $model)
    WHERE wasted_ms > 0 OR held_ms > 0
)
SELECT s.* EXCLUDE (wasted_energy_kwh, wasted_energy_known_ratio), f.*, s.wasted_energy_kwh, s.wasted_energy_known_ratio
FROM sums AS s, of_findings AS f;
