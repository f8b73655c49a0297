"""The files and the marks of a class.

- intake.py: take submissions from the inbox; arrivals.py: what lies in it, and what its names say;
  owners.py: whose it is; records.py: where each submission came from; dry_run.py: show what would
  be taken
- roster.py: the class list; worksheet.py: when a class handed in, from Moodle's worksheets
- deadlines.py, lateness.py, late_penalties.py, times.py: due dates, extensions and what a late day
  costs
- unpack_entry.py, unpack_submission.py, limited.py: unpack them, with little memory and time
- names.py: ids that are safe, and texts that can be shown
- autograde.py: grade them in parallel; progress_bar.py: show how far that is
- by_hand.py: points and comments of a person, when the student hands in again
- answer_sheets.py: written answers as tables for several readers; answer_marks.py: what they gave;
  rubric.py: the rubrics
- regrades.py: regrade requests and replies
- ungraded.py: who has no mark although they handed in; grade_rules.py: who is excused, and how
  assignments count together; totals.py: the table over all assignments
- leaderboard.py: places by a figure that a check measured, under the names that students choose
- drop.py: take a student's submission out of the class
- gradebook.py, preprocessors.py, database.py: write the results into nbgrader's gradebook
- export.py: write the marks as tables for other systems; export_canvas.py, export_moodle.py,
  export_nbgrader.py: one module per system; export_rows.py, spreadsheet.py: what they share
- causes.py: why checks could not run
- similarity.py: which solutions have much in common
- private.py: keep the paths of this machine out of what students get
- classroom.py: the paths of all these files, and the stored results
"""
