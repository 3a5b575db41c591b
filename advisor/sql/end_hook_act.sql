-- Notes how a site's own command ended, in its own words. Parameters: intent, at_ms (UTC ms), ended_as.
UPDATE hook_acts SET ended_at = epoch_ms(CAST($at_ms AS BIGINT)), ended_as = $ended_as
WHERE intent = $intent AND ended_at IS NULL;
