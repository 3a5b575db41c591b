-- The TCP ports on which a process, or a parent or child of it, waits for requests: it is a server then, whatever its
-- command is called. NULL: not known, as for every process of before.
ALTER TABLE processes ADD COLUMN listens INTEGER[];
