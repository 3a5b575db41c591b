-- Notes when all was judged. Parameters: at_ms (UTC ms).
INSERT INTO judged (as_of) VALUES (epoch_ms(CAST($at_ms AS BIGINT)));
