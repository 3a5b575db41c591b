-- Boards that were measured after they had gone are there again; the time between stays installed. No parameters.
UPDATE gpus SET installed_to = NULL, unlisted_from = NULL
FROM latest AS l
WHERE l.gpu_id = gpus.gpu_id AND gpus.parent_uuid IS NULL AND gpus.cut_of IS NULL AND l.ts > gpus.installed_to;
