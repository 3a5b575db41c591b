-- How many letters went to each receiver by themselves since then. Parameter: since_ms (UTC ms). Columns: receiver,
-- letters.
SELECT receiver, count(*) AS letters
FROM alert_letters
WHERE NOT gathered AND digest IS NULL AND turn <> 'digest' AND made_at > epoch_ms(CAST($since_ms AS BIGINT))
GROUP BY receiver;
