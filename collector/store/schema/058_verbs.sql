-- One act has one name, in the journal too: what older Fallows called it is renamed here. How else a name of before
-- is read, in what was written as JSON and by launchers, is in advisor/tags.py.
UPDATE intents SET verb = 'cancel' WHERE verb = 'terminate';
UPDATE intents SET verb = 'notify' WHERE verb = 'tell';
UPDATE intents SET verb = 'release-memory' WHERE verb = 'release-caches';
UPDATE intents SET verb = 'set-env-at-restart' WHERE verb = 'cap-at-next-launch';
UPDATE intents SET verb = 'hold-for-job' WHERE verb = 'promise';
