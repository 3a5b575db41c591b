-- GPU-hours by state of each cluster: the one whose workload manager tells of the job; else the one that the label of all its
-- GPUs names, in the manager's spelling where it has one.
--
-- @param from_ts minute: start of the window
-- @param to_ts minute: end of the window, exclusive
-- @param node text = NULL: only this node
-- @param project text = NULL: only what this project held
-- @param user text = NULL: only what this user held
-- @param model text = NULL: only GPUs of this model
-- @mark hours_to rollup_1h
-- @mark days_to rollup_1d
-- @column key text: the cluster
-- @column gpu_hours double (GPU-hours): time held by the key; under NULL, what nobody held
-- @column held_gpu_hours double (GPU-hours): of these, given to somebody
-- @column used_gpu_hours double (GPU-hours): utilization times measured time
-- @column bound_used_gpu_hours double (GPU-hours): of these, by GPU utilization alone, an upper bound: less may have been used
-- @column free_gpu_hours double (GPU-hours): in state free
-- @column allocated_empty_gpu_hours double (GPU-hours): held, and no process on it
-- @column held_idle_gpu_hours double (GPU-hours): a process, and at most 1% busy
-- @column low_saturation_gpu_hours double (GPU-hours): busy, under 25%
-- @column moderate_gpu_hours double (GPU-hours): 25 to 50%
-- @column good_gpu_hours double (GPU-hours): at least 50%
-- @column suspect_gpu_hours double (GPU-hours): counters contradict each other
-- @column withheld_gpu_hours double (GPU-hours): held by nobody, on a node that is drained, down or reserved
-- @column unknown_gpu_hours double (GPU-hours): not measured
-- @column utilization_ratio double (ratio): used over measured time
-- @column wasted_gpu_hours double (GPU-hours): allocated-empty plus held-idle
-- @column cost double (currency): of gpu_hours
-- @column wasted_cost double (currency): of wasted_gpu_hours
-- @column currency text: of both
-- @column energy_kwh double (kWh): used in that time
-- @column energy_known_ratio double (ratio): the part of gpu_hours in which energy was measured
-- @column wasted_energy_kwh double (kWh): used while wasted
-- @column wasted_energy_known_ratio double (ratio): the part of wasted_gpu_hours of which energy is known
-- @null utilization_ratio: nothing was measured; energy: not measured; ratios of energy: no hours; cost: some of the hours have no price, or currencies differ; key: nobody held it, or neither a workload manager nor a label tells
SELECT * FROM ledger_by_holder(coalesce((
    SELECT any_value(cluster) FROM manager_keys WHERE is_managed_as(managed_job, managed_user, job, user_name)
), (
    SELECT label_of_holder FROM (
        SELECT h.holder_id AS labelled_id, coalesce(any_value(k.name), any_value(h.label)) AS label_of_holder
        FROM (
            SELECT a.holder_id, min(g.cluster) AS label
            FROM allocations AS a JOIN gpus AS g USING (gpu_id)
            GROUP BY a.holder_id
            HAVING count(DISTINCT coalesce(lower(g.cluster), '')) = 1
        ) AS h
        LEFT JOIN (SELECT lower(cluster) AS small, min(cluster) AS name FROM manager_keys GROUP BY ALL) AS k
            ON k.small = lower(h.label)
        GROUP BY h.holder_id
    ) WHERE labelled_id = holder_id
)), $from_ts, $to_ts, $hours_to, $days_to, $node, $project, $user, $model)
ORDER BY gpu_hours DESC, key;
