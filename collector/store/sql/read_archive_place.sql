-- Where archived days are. No parameters. A row, or none: address, endpoint, region, ca_file.
SELECT address, endpoint, region, ca_file FROM archive_place;
