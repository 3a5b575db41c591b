-- Lets a gathered letter go out by itself. Parameter: number.
UPDATE alert_letters SET gathered = false WHERE number = $number;
