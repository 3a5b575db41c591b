-- Drops every holder's pattern, before the new ones come. No parameters.
DELETE FROM patterns;
