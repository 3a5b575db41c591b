-- Writes down what is known of a process now. Parameters: process_id with its key (node, pid, started_ms in
-- UTC ms), and user_name, uid, process_name, command, frameworks, container, pod, pod_namespace, slurm_job,
-- notebook, parent_pid, environment_keys and environment_values (lists), unreadable, listens.
UPDATE processes SET
    user_name = $user_name,
    uid = $uid,
    process_name = $process_name,
    command = $command,
    frameworks = $frameworks,
    container = $container,
    pod = $pod,
    pod_namespace = $pod_namespace,
    slurm_job = $slurm_job,
    notebook = $notebook,
    parent_pid = $parent_pid,
    environment = map(CAST($environment_keys AS VARCHAR[]), CAST($environment_values AS VARCHAR[])),
    unreadable = $unreadable,
    listens = CAST($listens AS INTEGER[])
WHERE process_id = $process_id AND node = $node AND pid = $pid AND epoch_ms(started_at) = $started_ms;
