-- Says which intent undid another. Parameters: number, undone_by. Column: intent, no row when another undid it.
UPDATE intents SET undone_by = $undone_by WHERE intent = $number AND undone_by IS NULL RETURNING intent;
