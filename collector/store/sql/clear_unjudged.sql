-- Drops all that was not judged, before the new rows come. No parameters.
DELETE FROM unjudged;
