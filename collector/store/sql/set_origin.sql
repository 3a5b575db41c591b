-- Notes, with the first GPU, what kind of GPUs the store holds from now on. Parameters: origin, at_ms.
INSERT INTO origin VALUES ($origin, make_timestamp_ms($at_ms));
