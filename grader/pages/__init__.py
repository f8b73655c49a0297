"""HTML pages: one feedback page per student (feedback.py) and the class report (class_report.py).

page.py has the functions that both use.
"""
