-- What a board's MIG instances leave of it. Parameters: uuid (the board's), since_ms (UTC ms).
-- Columns: taken (0..1, by those installed now), ended_ms (UTC ms: when the last of those ended that ended after
-- since_ms; NULL: none did).
SELECT
    coalesce(sum(share_of_device) FILTER (installed_to IS NULL), 0.0) AS taken,
    epoch_ms(max(installed_to) FILTER (installed_to > epoch_ms(CAST($since_ms AS BIGINT)))) AS ended_ms
FROM gpus
WHERE parent_uuid = $uuid;
