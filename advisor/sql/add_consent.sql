-- Writes down what an owner allows. Parameters: user_name, job (NULL: all), kind, allowed, at_ms, until_ms (UTC ms).
INSERT INTO consents (said_at, user_name, job, kind, allowed, until_at)
VALUES (
    epoch_ms(CAST($at_ms AS BIGINT)), $user_name, $job, $kind, $allowed, epoch_ms(CAST($until_ms AS BIGINT)));
