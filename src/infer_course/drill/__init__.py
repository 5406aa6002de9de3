"""Spaced repetition towards an interview date, the same in the terminal and in the browser.

To read: `memory` (FSRS), `progress` and `progress_file` (the log), `queue` (what a sitting asks, in which order), `plan` (the days left),
`statistics`, `estimate` (judging a number); then `terminal` (the screen) and `lab_records` (the reader's own measurements). The first
group are pure functions of their arguments; `tests/fixtures/drill_*.json` hold inputs and outputs that `web/src/drill/` must equal.
"""
