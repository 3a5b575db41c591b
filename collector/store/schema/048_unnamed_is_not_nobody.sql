-- Hours and money for any key made of a holder's columns. Under the key NULL stand two rows where there are both: what
-- nobody held, and what somebody held of whom the key is not known.
CREATE OR REPLACE MACRO ledger_by_holder(
    key_column, window_from, window_to, hours_to, days_to, only_node, only_project, only_user, only_model
) AS TABLE
SELECT
    key_column AS key, sum_hours(total_ms, share_of_device) AS gpu_hours,
    sum_hours(held_ms, share_of_device) AS held_gpu_hours, sum_hours(used_ms, share_of_device) AS used_gpu_hours,
    sum_hours(free_ms, share_of_device) AS free_gpu_hours,
    sum_hours(allocated_empty_ms, share_of_device) AS allocated_empty_gpu_hours,
    sum_hours(held_idle_ms, share_of_device) AS held_idle_gpu_hours,
    sum_hours(low_saturation_ms, share_of_device) AS low_saturation_gpu_hours,
    sum_hours(moderate_ms, share_of_device) AS moderate_gpu_hours, sum_hours(good_ms, share_of_device) AS good_gpu_hours,
    sum_hours(suspect_ms, share_of_device) AS suspect_gpu_hours, sum_hours(unknown_ms, share_of_device) AS unknown_gpu_hours,
    sum_ratio(used_ms, measured_ms, share_of_device) AS utilization_ratio,
    sum_hours(wasted_ms, share_of_device) AS wasted_gpu_hours,
    sum_money(total_ms, share_of_device, per_gpu_hour, currency) AS cost,
    sum_money(wasted_ms, share_of_device, per_gpu_hour, currency) AS wasted_cost,
    one_currency(currency) AS currency
FROM holder_rows(window_from, window_to, hours_to, days_to, only_node, only_project, only_user, only_model)
GROUP BY key_column, holder_id IS NULL;
