-- Since when the source that reported a GPU lists it no more, though it could be read; NULL while it is listed, or
-- while nobody can tell. installed_to follows from it: see collector/store/standing.py.
ALTER TABLE gpus ADD COLUMN unlisted_from TIMESTAMP;
