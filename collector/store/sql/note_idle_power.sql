-- Notes what a GPU is told to draw when idle, where nothing lower was seen. Parameters: uuid, power_mw (mW).
UPDATE gpus SET idle_power_mw = least(coalesce(idle_power_mw, $power_mw), $power_mw) WHERE uuid = $uuid;
