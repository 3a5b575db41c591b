-- Writes down what is known of a holder now; a user or project that accounting told stays until a source tells
-- another. Parameters (fields of collector.model.Holder): command, framework, job, kind, name, project, user.
UPDATE holders SET
    user_from = CASE WHEN coalesce($user, user_name) = user_name THEN user_from END,
    project_from = CASE WHEN coalesce($project, project) = project THEN project_from END,
    user_name = coalesce($user, user_name),
    project = coalesce($project, project),
    job_name = $name,
    kind = $kind,
    framework = $framework,
    command = $command
WHERE job = $job;
