-- Minutes up to 25 hours, ten of them up to eight days, hours beyond: a week's minutes of 500 GPUs and 120 kinds of
-- waits took ten seconds of processor time a question.
CREATE OR REPLACE MACRO beside_step_s(window_from, window_to) AS
    CASE WHEN window_to - window_from <= INTERVAL 25 HOUR THEN 60
        WHEN window_to - window_from <= INTERVAL 8 DAY THEN 600 ELSE 3600 END;
