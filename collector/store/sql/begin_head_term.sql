-- A start of this head. Parameters: start, epoch (UTC ms), word, at_ms (UTC ms), superseded (NULL, it is the head).
INSERT INTO head_terms VALUES ($start, $epoch, $word, epoch_ms(CAST($at_ms AS BIGINT)), $superseded);
