-- Adds patterns. Parameters: at_ms (UTC ms) and, equally long lists: holder_ids, kinds, window_from_ms,
-- window_to_ms (UTC ms), evidence (JSON texts), reasons (NULL: none is needed).
INSERT INTO patterns (holder_id, kind, as_of, window_from, window_to, evidence, reason)
SELECT
    unnest($holder_ids), unnest($kinds), epoch_ms(CAST($at_ms AS BIGINT)),
    epoch_ms(CAST(unnest($window_from_ms) AS BIGINT)), epoch_ms(CAST(unnest($window_to_ms) AS BIGINT)),
    unnest($evidence), unnest(CAST($reasons AS VARCHAR[]));
