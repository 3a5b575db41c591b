-- Puts gathered letters into one. Parameters: digest (its number), numbers (of those in it).
UPDATE alert_letters SET digest = $digest WHERE number IN (SELECT unnest(CAST($numbers AS BIGINT[])));
