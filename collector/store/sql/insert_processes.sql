-- Adds the processes of the registered Arrow table "incoming" (key, what is known, at_ms in UTC ms).
-- Rows: process_id and key (started in UTC ms) of each.
INSERT INTO processes (
    node, pid, started_at, user_name, uid, process_name, command, frameworks, container, pod, pod_namespace,
    slurm_job, notebook, parent_pid, environment, unreadable, listens, first_seen, last_seen
)
SELECT
    node, pid, epoch_ms(started_ms), user_name, uid, process_name, command, frameworks, container, pod,
    pod_namespace, slurm_job, notebook, parent_pid, map(environment_keys, environment_values), unreadable, listens,
    epoch_ms(at_ms), epoch_ms(at_ms)
FROM incoming
RETURNING process_id, node, pid, epoch_ms(started_at);
