-- Notes where archived days are. Parameters: address, endpoint, region, ca_file.
INSERT INTO archive_place (address, endpoint, region, ca_file) VALUES ($address, $endpoint, $region, $ca_file);
