-- Notes that a pause by a site's own command is over. Parameters: intent, at_ms (UTC ms), over_as (released, unknown).
UPDATE hook_acts SET over_at = epoch_ms(CAST($at_ms AS BIGINT)), over_as = $over_as
WHERE intent = $intent AND over_as IS NULL;
