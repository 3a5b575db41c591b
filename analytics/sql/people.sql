-- What each person held, used and wasted, the most wasteful first.
--
-- @param from_ts minute: start of the window
-- @param to_ts minute: end of the window, exclusive
-- @param node text = NULL: only this node
-- @param project text = NULL: only what this project held
-- @param user text = NULL: only what this user held
-- @param model text = NULL: only GPUs of this model
-- @mark hours_to rollup_1h
-- @mark days_to rollup_1d
-- @column user_name text: the person
-- @column project text: for which project
-- @column gpu_hours double (GPU-hours): held
-- @column used_gpu_hours double (GPU-hours): utilization times measured time
-- @column bound_used_gpu_hours double (GPU-hours): of these, by GPU utilization alone, an upper bound: less may have been used
-- @column wasted_gpu_hours double (GPU-hours): held, and empty or idle
-- @column utilization_ratio double (ratio): used over measured time
-- @column cost double (currency): of gpu_hours
-- @column wasted_cost double (currency): of wasted_gpu_hours
-- @column currency text: of both
-- @column jobs bigint: how many held something
-- @column energy_kwh double (kWh): used in that time
-- @column energy_known_ratio double (ratio): the part of gpu_hours in which energy was measured
-- @column wasted_energy_kwh double (kWh): used while wasted
-- @column wasted_energy_known_ratio double (ratio): the part of wasted_gpu_hours of which energy is known
-- @null user_name, project: not known; utilization_ratio: nothing was measured; energy: not measured; ratios of energy: no hours; cost: no price
SELECT
    user_name, project, sum_hours(total_ms, share_of_device) AS gpu_hours,
    sum_hours(used_ms, share_of_device) AS used_gpu_hours,
    sum_hours(bound_used_ms, share_of_device) AS bound_used_gpu_hours, sum_hours(wasted_ms, share_of_device) AS wasted_gpu_hours,
    sum_ratio(used_ms, measured_ms, share_of_device) AS utilization_ratio,
    sum_money(total_ms, share_of_device, per_gpu_hour, currency) AS cost,
    sum_money(wasted_ms, share_of_device, per_gpu_hour, currency) AS wasted_cost,
    one_currency(currency) AS currency, count(DISTINCT holder_id) AS jobs,
    energy_kwh(energy_mj, energy_ms, total_ms) AS energy_kwh,
    sum_ratio(energy_ms, total_ms, share_of_device) AS energy_known_ratio,
    energy_kwh(wasted_energy_mj, wasted_energy_ms, wasted_ms) AS wasted_energy_kwh,
    sum_ratio(wasted_energy_ms, wasted_ms, share_of_device) AS wasted_energy_known_ratio
FROM holder_rows($from_ts, $to_ts, $hours_to, $days_to, $node, $project, $user, $model)
WHERE holder_id IS NOT NULL
GROUP BY user_name, project
ORDER BY wasted_gpu_hours DESC, gpu_hours DESC, user_name, project;
