"""What people read: a feedback page for each student, the class report, tables for an LMS."""
