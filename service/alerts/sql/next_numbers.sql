-- The numbers that the next case and the next letter get. No parameters. Columns: case_number, letter_number.
SELECT
    (SELECT coalesce(max(number), 0) + 1 FROM alert_cases) AS case_number,
    (SELECT coalesce(max(number), 0) + 1 FROM alert_letters) AS letter_number;
