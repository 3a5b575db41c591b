-- Writes down what is known of a holder now. Parameters (fields of collector.model.Holder): command,
-- framework, job, kind, name, project, user.
UPDATE holders SET
    user_name = $user,
    project = $project,
    job_name = $name,
    kind = $kind,
    framework = $framework,
    command = $command
WHERE job = $job;
