-- What nobody was given is no waste: a process that sits idle on a GPU that nobody holds, or memory that stays there, is
-- suspect, and not held-idle (rollup_minutes.sql). So it is in what was rolled up before (docs/decisions/0081).
--
-- Suspect time is in neither used nor measured time. These hours used 1% at most, which stays where it was counted.
UPDATE rollup_1m SET
    suspect_ms = suspect_ms + held_idle_ms, held_idle_ms = 0, measured_ms = greatest(measured_ms - held_idle_ms, used_ms),
    suspect_energy_mj = CASE WHEN held_idle_energy_mj IS NULL THEN suspect_energy_mj
        ELSE coalesce(suspect_energy_mj, 0) + held_idle_energy_mj END,
    held_idle_energy_mj = NULL, wasted_energy_ms = CASE WHEN wasted_energy_ms IS NOT NULL THEN 0 END
WHERE holder_id IS NULL AND held_idle_ms > 0;

UPDATE rollup_1h SET
    suspect_ms = suspect_ms + held_idle_ms, held_idle_ms = 0, measured_ms = greatest(measured_ms - held_idle_ms, used_ms),
    suspect_energy_mj = CASE WHEN held_idle_energy_mj IS NULL THEN suspect_energy_mj
        ELSE coalesce(suspect_energy_mj, 0) + held_idle_energy_mj END,
    held_idle_energy_mj = NULL, wasted_energy_ms = CASE WHEN wasted_energy_ms IS NOT NULL THEN 0 END
WHERE holder_id IS NULL AND held_idle_ms > 0;

UPDATE rollup_1d SET
    suspect_ms = suspect_ms + held_idle_ms, held_idle_ms = 0, measured_ms = greatest(measured_ms - held_idle_ms, used_ms),
    suspect_energy_mj = CASE WHEN held_idle_energy_mj IS NULL THEN suspect_energy_mj
        ELSE coalesce(suspect_energy_mj, 0) + held_idle_energy_mj END,
    held_idle_energy_mj = NULL, wasted_energy_ms = CASE WHEN wasted_energy_ms IS NOT NULL THEN 0 END
WHERE holder_id IS NULL AND held_idle_ms > 0;
