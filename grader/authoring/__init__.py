"""Write an assignment: its skeleton, its mutants, and a trial.

docs/writing_an_assignment.md leads through it.

- `skeleton.py`: `grader new a8`
- `mutants.py`: wrong answers, each with the checks that it must fail (an assignment's `mutants.py`)
- `submissions.py`: the solution, the untouched release and a mutant as a student would hand them in
- `gaps.py`: what an assignment lacks, as far as that can be seen without running it
- `trial.py`: `grader try a8`
- `function_table.py`: the table of functions in docs/writing_an_assignment.md
"""
