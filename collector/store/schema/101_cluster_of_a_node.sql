-- Machines of one name in two clusters are two nodes (docs/decisions/0148): their GPUs say of which they are.
ALTER TABLE gpus ADD COLUMN cluster VARCHAR;  -- as its labels have it; NULL: nobody told
ALTER TABLE gpus ADD COLUMN host VARCHAR;     -- what the machine is called, where node bears its cluster; NULL: as node is
