-- Where days begin, and how much a day is. No parameters. A row: the oldest hour (UTC ms, NULL: there is none), GPUs.
SELECT epoch_ms(min(ts)), (SELECT count(*) FROM gpus) FROM rollup_1h;
