"""Pages as a browser shows them: nothing is wider than a window of 1280 pixels."""

from __future__ import annotations

from pathlib import Path

import pytest
from a_class import classroom

from grader.pages import class_report, feedback
from grader.vocabulary.panel import LOOKS
from grader.vocabulary.results import CheckResult, Flag, Graded, Verdict
from tests.lab.browser import HOW, MISSING, Browser
from workbook import assignments

pytestmark = pytest.mark.server

HEAD = "# ---\n# title: Wide\n# minutes: 5\n# ---\n\n"
CHECK = '# %% kind="check" id="a9.check_with_a_long_name_{n}" points=5\n{call}\n\n'
DEFINED = (
    '@define.define("a9.check_with_a_long_name_{n}")\ndef check_{n}(number: int) -> None: ...\n'
)
CALL = 'check("a9.check_with_a_long_name_{n}", number=1)'
DUE = """
timezone = "America/Argentina/ComodRivadavia"
[a9]
due = 2026-11-20T23:59:00
percent_per_day = 2.5
"""
WIDE = "return [document.documentElement.scrollWidth, window.innerWidth]"
SCROLLS = "return [...document.querySelectorAll('.wide')].some(e => e.scrollWidth > e.clientWidth)"


@pytest.mark.skipif(bool(MISSING), reason=HOW)
@pytest.mark.timeout(300)
def test_a_table_of_sixteen_checks_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBOOK_HOME", str(tmp_path))
    source = tmp_path / "solutions" / "a9__wide" / "a9.py"
    source.parent.mkdir(parents=True)
    checks = (CHECK.format(n=n, call=CALL.format(n=n)) for n in range(16))
    source.write_text(HEAD + "".join(checks))
    defined = (DEFINED.format(n=n) for n in range(16))
    source.with_name("checks.py").write_text(
        "from grader.vocabulary import define\n" + "".join(defined)
    )
    wide = assignments.named("a9", tmp_path)
    assignments.build(wide)
    where = classroom(tmp_path)
    statuses = [status for status in LOOKS if status not in ("passed", "partial")]
    for number in range(40):
        results = tuple(
            CheckResult(
                id=id,
                sentence="It holds, for every input that a client may send, and at any time.",
                status=statuses[(number + place) % len(statuses)],
                credit=0,
                rationale=f"It was {'very' * 80} wrong, at /{'a' * 300}.",
            )
            for place, id in enumerate(wide.checks)
        )
        flags = (
            Flag(kind="notebook disagrees", detail="x" * 500),
            Flag(kind="looked for the judge", detail="It read /proc."),
        )
        graded = Graded(
            key=f"{number:064}",
            assignment=wide.name,
            verdict=Verdict(assignment=wide.name, checks=results, flags=flags),
            notebook=wide.release.read_text(),
            sandbox="bubblewrap",
        )
        where.store(graded)
        who = f"a_student_with_a_name_as_long_as_names_may_be_{number:03}"
        index = where.results_index(wide.name)
        where.save_results_index(wide.name, {**index, who: graded.key})
        stamp = where.submission(who, wide.name) / "timestamp.txt"
        stamp.parent.mkdir(parents=True)
        stamp.write_text("2026-11-29 10:00:00 UTC")
    (where.home / "deadlines.toml").write_text(DUE)
    (where.home / "students.csv").write_text(
        "id,name\n" + "".join(f"{who},Wilhelmina Featherstonehaugh-Cholmondeley\n" for who in index)
    )
    class_report.write_class_report(where, wide)
    feedback.write_feedback(where, wide)
    pages = [class_report.page(where, wide), *sorted(where.feedback.rglob("*.html"))[:1]]
    with Browser(tmp_path / "profile", size=(1280, 900)) as browser:
        for page in pages:
            browser.open(page.as_uri())
            width, window = browser.run(WIDE)
            assert width <= window <= 1280, page
            assert not browser.run(SCROLLS), page
        browser.open(pages[0].as_uri())
        browser.screenshot(tmp_path / "class.png")
