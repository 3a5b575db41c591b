-- What was found in an imported past, judged after it (docs/decisions/0149).
--
-- findings.of_past   judged when the past was imported, or again when the rules had changed; nobody was told of it then
-- imports.rules      the version of the rules by which the range was judged last; NULL: not yet
ALTER TABLE findings ADD COLUMN of_past BOOLEAN DEFAULT(false);
ALTER TABLE imports ADD COLUMN rules VARCHAR;
