-- Each start of a head, of which machines that push (`fallow node`) remember the newest: so that a copy of this store, one
-- that was restored from a back-up, or a head that was taken over from, learns of the other one and does nothing.
--
-- head_terms    a row a start, the newest thousand. epoch: when somebody had it take over (UTC ms), 0: nobody ever did;
--               start: counts, over all epochs; word: random, made at the start. superseded: why this is not the
--               head any more, as a node told it; NULL: it is, for all that is known
CREATE TABLE head_terms (
    start BIGINT PRIMARY KEY,
    epoch BIGINT NOT NULL,
    word VARCHAR NOT NULL,
    began_at TIMESTAMP NOT NULL,
    superseded VARCHAR
);
