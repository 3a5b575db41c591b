-- When an intent was begun, by a clock that nobody can set, and why there is nothing to undo it with.
--
-- steady_ms     milliseconds of the machine's monotonic clock; counts within one boot
-- boot          the name of that boot; NULL: not known
-- no_undo       why no command undoes it; NULL where undo names one
ALTER TABLE intents ADD COLUMN steady_ms BIGINT;
ALTER TABLE intents ADD COLUMN boot VARCHAR;
ALTER TABLE intents ADD COLUMN no_undo VARCHAR;
