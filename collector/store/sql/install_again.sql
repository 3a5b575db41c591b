-- A GPU that was gone is there again; the time between stays installed, and unknown. Parameter: uuid.
UPDATE gpus SET installed_to = NULL, unlisted_from = NULL WHERE uuid = $uuid;
