-- Notes that a sealed file is on this disk no more, but for its copy. Parameter: path.
UPDATE archived SET is_here = false
FROM sealed
WHERE sealed.path = $path AND archived.path = sealed.path AND archived.sealed_at = sealed.sealed_at;
