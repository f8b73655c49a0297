"""Pages for people: one feedback page per student (feedback.py) and the class report
(class_report.py). page.py is what both share."""
