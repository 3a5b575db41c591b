-- Who got, or is to get, a letter about a case. Parameter: alert. Column: receiver.
SELECT DISTINCT receiver FROM alert_letters WHERE alert = $alert ORDER BY receiver;
