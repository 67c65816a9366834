"""An orchestrator with two agents and two projects: the second is saved by what the first one learnt.

No key, no network, no model: the agents here run real commands (a small program, its test, a shell) and differ only in
what they were told. An agent of yours would be a language model that gets `context.text` as its prompt.

python examples/orchestrator.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ragforge import Ragforge
from ragforge.domain.lessons import LessonContext
from ragforge.settings import load

PROGRAM = """\
import csv, sys
with open(sys.argv[1]{options}) as file:
    print(sum(float(row["price"]) for row in csv.DictReader(file)))
"""
BILLING = "Write a script that sums the column price of a CSV file which was exported by Excel"
WAREHOUSE = "Add up the prices in a CSV file that the warehouse exports with Excel"
FAILURE = "Reading a CSV file exported by Excel with csv.DictReader fails: the first column has no such name."
SOLUTION = (
    "Open the file with encoding='utf-8-sig', so that the byte order mark which Excel writes is not read as text."
)


@dataclass(frozen=True, slots=True)
class Attempt:
    """What became of one try of an agent."""

    options: str
    error: str

    @property
    def worked(self) -> bool:
        return not self.error


def attempt(folder: Path, options: str) -> Attempt:
    """The agent's work, really done: it writes the program and runs it on the customer's file."""
    (folder / "prices.csv").write_bytes("\ufeffprice,name\r\n2.50,bolt\r\n1.25,nut\r\n".encode())
    (folder / "total.py").write_text(PROGRAM.format(options=options))
    done = subprocess.run([sys.executable, "total.py", "prices.csv"], cwd=folder, capture_output=True, text=True)
    return Attempt(options, done.stderr.strip().splitlines()[-1] if done.returncode else "")


def agent(folder: Path, told: LessonContext) -> list[Attempt]:
    """Tries what it is told first, if that is anything it knows how to do; else what comes to mind, in turn."""
    ideas = ["", ", encoding='utf-8'", ", encoding='utf-8-sig'"]
    ideas.sort(
        key=lambda idea: idea == "" or idea.split("'")[1] + "'" not in told.block
    )  # what is in the block comes first
    tries: list[Attempt] = []
    for idea in ideas:
        tries.append(attempt(folder, idea))
        if tries[-1].worked:
            break
    return tries


def run(forge: Ragforge, project: str, task: str, folder: Path) -> int:
    """One project from its task to its checkpoint; how many attempts it took."""
    folder.mkdir()
    forge.create_project(project, embedder="wordllama")
    lessons = forge.lessons
    told = lessons.context(task, project=project, agent_type="backend", technology="python")
    print(f"\n=== {project}: the agent reads\n\n{told.text}\n")
    tries = agent(folder, told)
    for number, each in enumerate(tries, 1):
        print(f"attempt {number}: open(file{each.options}) -> {'works' if each.worked else each.error}")
    failed = [each for each in tries if not each.worked]
    if failed and tries[-1].worked:  # verified: the program ran
        lessons.capture_failure(
            project=project,
            agent_type="backend",
            task_type="implementation",
            technology="python",
            task=task,
            failure_description=FAILURE,
            error_message=failed[0].error,
            solution_steps=SOLUTION,
            decision_criteria="The file was written by Excel on Windows",
            evidence="total.py prints 3.75 for prices.csv",
        )
    for pattern in told.shown[:1]:
        lessons.record_outcome(pattern, tries[0].worked, project=project, note="the first attempt", key=f"{project} 1")
    report = lessons.checkpoint("project", project=project)
    print(f"checkpoint: {report.embedded} embedded, {report.new_patterns} new, {report.patterns} known in {project}")
    return len(tries)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = load(Path(folder) / "workspace", flags={"the example": {"learn.embedder": "wordllama"}})
        with Ragforge.open(settings) as forge:
            first = run(forge, "billing", BILLING, Path(folder) / "billing")
            forge.lessons.share(True, project="billing")  # what it learnt may be told elsewhere
            second = run(forge, "warehouse", WAREHOUSE, Path(folder) / "warehouse")
            (pattern,) = forge.lessons.patterns(project="billing")
            print(f"\nattempts: {first} in billing, {second} in warehouse")
            print(f"the lesson has {pattern.record.successes} successes and {pattern.record.losses} failures now")
            assert (first, second) == (3, 1)


if __name__ == "__main__":
    main()
