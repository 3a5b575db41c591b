-- How much of the file is in use. No parameters. A row: bytes a block, blocks, blocks free for reuse.
SELECT block_size, total_blocks, free_blocks FROM pragma_database_size();
