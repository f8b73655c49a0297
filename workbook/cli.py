"""The command line: `workbook serve · status · stop · models · deploy · build · site · …`."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from .common import paths, terminal
from .common.errors import RequestError, ServerError, StillLoading, WorkbookError
from .server import (
    Server,
    Triton,
    all_models,
    connect,
    find_server,
    loading,
    restart_progress,
    run_folders,
    server_status,
    which_repository,
)
from .server import deploy as deploy_model
from .server import undeploy as undeploy_model
from .server.connection import DEFAULT_GRPC, DEFAULT_HTTP, DEFAULT_METRICS
from .server.model_warnings import ModelWarning

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)
app = typer.Typer(
    help="Triton Inference Server on this machine, and the models of the course.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Port = Annotated[int, typer.Option(min=0, max=65535)]
#: The exit status if the server answers, but some of its models are still loading.
STILL_LOADING = 4
#: The message after Ctrl-C, by command: what of the command's work is kept.
_KEPT = {
    "serve": "The server has ended.",
    "models": "The models that were built are kept; the same command goes on from there.",
    "build": "The same command writes what is missing.",
    "deploy": "`workbook status` shows whether the model was deployed.",
    "site": "The lectures that ran are kept; the same command goes on from there.",
    "slides": "The lectures that ran are kept; the same command goes on from there.",
    "submit": "No new zip was written.",
}


@app.command()
def serve(
    repository: Annotated[
        Path | None, typer.Option(help="The model repository. Default: the shared one.")
    ] = None,
    control: Annotated[
        Literal["explicit", "poll", "none"], typer.Option(help="The model control mode.")
    ] = "explicit",
    models: Annotated[
        str, typer.Option(help="Models to load in explicit mode: all, none, or names with commas.")
    ] = "all",
    detach: Annotated[bool, typer.Option(help="Return when it is ready; it runs on.")] = False,
    http_port: Port = DEFAULT_HTTP,
    grpc_port: Port = DEFAULT_GRPC,
    metrics_port: Port = DEFAULT_METRICS,
    address: Annotated[
        str, typer.Option(help="Listen here. Whoever reaches the ports can load code.")
    ] = "127.0.0.1",
    cache_mib: Annotated[int, typer.Option(min=0, help="Response cache; 0: none.")] = 64,
    strict: Annotated[
        bool,
        typer.Option(help="Refuse answers of Python models that do not fit the config."),
    ] = False,
    plain: Annotated[
        bool,
        typer.Option(help="The wheel's server and the stand-ins alone: see native/README.md."),
    ] = False,
    option: Annotated[
        list[str] | None,
        typer.Option(help="Any tritonserver option, e.g. --option=--log-verbose=1"),
    ] = None,
) -> None:
    """Start the laptop server and load the models. Exit status 4, with --detach: some models are
    still loading after five minutes; the server goes on loading them."""
    running = run_folders.current()
    home = (repository or paths.repository()).expanduser().resolve()
    if running is not None:
        if detach and Path(running.repository) == home and running.control == control:
            with find_server.of_record(running) as server:
                restart_progress.wait(server, report=_say_notice)
                _announce(server, "is running already")
                still = _load_missing(server, models)
            raise typer.Exit(STILL_LOADING if still else 0)
        raise ServerError(
            f"A server of this checkout is running already, on {running.repository}.",
            where=running.url,
            todo="Use it, or stop it first: `workbook stop`.",
        )
    triton = Triton(
        home,
        control=control,
        http=http_port,
        grpc=grpc_port,
        metrics=metrics_port,
        address=address,
        cache=cache_mib << 20,
        strict=strict,
        plain=plain,
        options=option or (),
    )
    began = time.monotonic()
    triton.start(detach=detach, remember=True)
    try:
        _announce(triton, f"is ready after {time.monotonic() - began:.1f} s")
        still = _load_missing(triton, models)
        if not detach:
            out.print("Ctrl-C stops the server.")
            triton.wait()
    except BaseException:
        triton.stop()
        raise
    if not detach:
        triton.stop()
        raise ServerError(
            "The server ended.",
            where=str(run_folders.last_log()),
            todo="Look at the end of its log.",
        )
    if still:
        raise typer.Exit(STILL_LOADING)


@app.command()
def status(
    as_json: Annotated[bool, typer.Option("--json", help="For scripts.")] = False,
) -> None:
    """Show the server and its models. Exit status 3: no server of this checkout runs."""
    if as_json:
        found = server_status.as_json()
        out.print_json(json.dumps(found))
        raise typer.Exit(0 if found["running"] else 3)
    try:
        state = server_status.read()
    except ServerError as error:
        terminal.complain(err, error)
        _list_lectures()
        raise typer.Exit(3) from None
    record = state.record
    _announce(state.server, f"is running{f' as process {record.process()}' if record else ''}")
    if record is not None:
        out.print(f"  log          {escape(str(record.log))}", soft_wrap=True)
    for sentence in state.sentences():
        out.print(f"  [yellow]{escape(sentence)}[/]", soft_wrap=True)
    out.print(_table(state.models))
    for model in state.models:
        for warning in model.warnings:
            _say_warning(warning)
    _list_lectures()


@app.command()
def stop() -> None:
    """Stop this checkout's server and everything it started."""
    record = run_folders.current()
    if record is None:
        out.print("No server of this checkout is running.")
        return
    if record.is_listening():
        with find_server.of_record(record) as server:
            server.unload_all()
    run_folders.end(record)
    out.print(f"Stopped the server at {record.url}.")


@app.command()
def models(
    names: Annotated[
        list[str] | None, typer.Argument(help="Models, or `llama`. Default: all but those.")
    ] = None,
    rebuild: Annotated[bool, typer.Option(help="Build again what is there.")] = False,
    hub: Annotated[
        str, typer.Option(help="A checkpoint of the Hugging Face hub for the models named.")
    ] = "",
) -> None:
    """Build the weights of the shared repository's models; what is there is kept."""
    from . import zoo

    taken = dict.fromkeys(names or (), hub) if hub else None
    built = zoo.repository.build(only=names or None, force=rebuild, hub=taken)
    done = f"{len(built)} built; the repository is complete: {escape(str(paths.repository()))}"
    out.print(done, soft_wrap=True)
    if not names and (reason := zoo.engines.cannot_run()):
        for name in zoo.repository.ENGINES:
            more = "" if zoo.engines.lacking() else f" `workbook models {name}` builds it here."
            out.print(f"Left out: {name}. {escape(reason)}{more}", soft_wrap=True)


@app.command()
def deploy(
    folder: Annotated[Path, typer.Argument(help="The model's folder.")],
    name: Annotated[str | None, typer.Option(help="Default: the folder's name.")] = None,
    version: Annotated[
        int | None, typer.Option(min=1, help="The folder is this version of a deployed model.")
    ] = None,
) -> None:
    """Copy a model folder into the shared repository, load it, and wait until it is ready."""
    with connect() as server, out.status(f"Deploying {escape(name or folder.name)} …"):
        done = deploy_model(folder, name=name, version=version, server=server)
    out.print(f"[green]✓[/] {escape(str(dataclasses.replace(done, warnings=())))}")
    for warning in done.warnings:
        _say_warning(warning)


@app.command()
def undeploy(
    name: Annotated[str, typer.Argument(help="The model's name.")],
    version: Annotated[int | None, typer.Option(min=1, help="Only this version.")] = None,
    now: Annotated[
        bool, typer.Option("--now", help="End its processes: its requests get an error.")
    ] = False,
) -> None:
    """Unload a model and take it out of the shared repository."""
    with connect() as server:
        undeploy_model(
            name,
            version=version,
            now=now,
            server=server,
            report=lambda text: err.print(escape(text)),
        )
    out.print(f"[green]✓[/] {escape(name)} is gone" + (f", version {version}." if version else "."))


@app.command()
def chat(
    model: Annotated[str, typer.Argument(help="A language model that is loaded.")],
    question: Annotated[
        list[str] | None, typer.Argument(help="Default: ask for them, until Ctrl-D.")
    ] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="The longest answer.")] = 256,
    temperature: Annotated[
        float, typer.Option(min=0.0, help="0: always the likeliest token.")
    ] = 0.7,
    top_p: Annotated[float, typer.Option(help="Draw from the likeliest tokens up to this.")] = 0.9,
) -> None:
    """Talk to a language model; the answer appears as it is made."""
    from .llm import chat

    def show(piece: str) -> None:
        out.print(piece, end="", markup=False, soft_wrap=True)

    parameters = {"max_tokens": max_tokens, "temperature": temperature, "top_p": top_p}
    with connect() as server:
        chat.check(server, model)
        if question is not None:
            chat.ask(server, model, " ".join(question), parameters, show)
            return
        conversation = chat.Conversation(server, model, parameters)
        while typed := chat.read_question():
            try:
                is_whole = conversation.ask(typed, show)
            except RequestError as error:  # the conversation goes on without this question
                terminal.complain(err, error)
                continue
            if not is_whole:
                err.print("[dim](The model's context is full: the oldest turns are left out.)[/]")


@app.command()
def openai(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Listen here.")] = 9000,
    address: Annotated[str, typer.Option(help="Listen on this address.")] = "127.0.0.1",
) -> None:
    """Answer OpenAI's clients with the language models of the running server, until Ctrl-C."""
    from .llm import openai

    with connect() as server:
        openai.serve(server, address, port, report=out.print)


@app.command()
def lab(
    browser: Annotated[bool, typer.Option(help="Open a browser.")] = True,
    port: Annotated[int, typer.Option(help="JupyterLab's port.")] = 8888,
    http_port: Port = DEFAULT_HTTP,
    grpc_port: Port = DEFAULT_GRPC,
    metrics_port: Port = DEFAULT_METRICS,
) -> None:
    """Start the server, load the models that are built, build the others meanwhile, and run
    JupyterLab in your copy of the course, until Ctrl-C."""
    from .lab import background, jupyter, reader_copy

    for sentence in reader_copy.update().sentences():
        out.print(escape(sentence), soft_wrap=True)
    began = time.monotonic()
    server, finish = jupyter.server(http=http_port, grpc=grpc_port, metrics=metrics_port)
    try:
        _announce(server, f"is ready after {time.monotonic() - began:.1f} s")
        _load_missing(server, "all")
        with background.BackgroundBuild(server, say=_say_line, complain=_complain_line):
            code = jupyter.jupyter(browser=browser, port=port, server=server)
    finally:
        finish()
    raise typer.Exit(code)


@app.command(
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def bench(context: typer.Context) -> None:
    """Measure this server, and grading, on this machine; writes BENCHMARKS.md. --help says more."""
    # A process of its own: `benchmarks/` stands above this package, which does not import it.
    command = [sys.executable, "-m", "benchmarks", *context.args]
    raise typer.Exit(subprocess.run(command, cwd=paths.root(), check=False).returncode)


@app.command()
def build(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Assignments (a2) or lectures (01__first_model). Default: all."),
    ] = None,
    check: Annotated[
        bool, typer.Option(help="Change nothing; fail if a built file is not up to date.")
    ] = False,
) -> None:
    """Build the notebooks of lectures and assignments from their sources."""
    from . import assignments

    with out.status("Building …") as shown:
        count, changed = assignments.update_all(
            names, dry=check, report=lambda name: shown.update(f"Building {escape(name)} …")
        )
    if check and changed:
        raise WorkbookError(
            "Built files are not up to date:\n" + "\n".join(f"  {path}" for path in changed),
            todo="Run `workbook build`; delete what the sources no longer make.",
        )
    for path in changed:
        out.print(f"[green]✓[/] {escape(str(path))}", soft_wrap=True)
    out.print(f"{count} sources; {len(changed)} files changed.")


@app.command()
def site(
    output: Annotated[
        Path | None, typer.Option(help="The folder of the site. Default: .workbook/site.")
    ] = None,
    executed: Annotated[
        Path | None,
        typer.Option(
            "--from", help="Executed copies, e.g. of a CI run. Default: .workbook/executed."
        ),
    ] = None,
) -> None:
    """Make the course's site. Lectures that were changed since they ran are run first."""
    from . import site

    with out.status("Looking for lectures to run …") as shown:
        lectures = site.executed.everything(
            executed, lambda name: shown.update(f"Running {escape(name)} …")
        )
        shown.update("Building the pages …")
        index = site.build(lectures, output or paths.state("site"))
    out.print(f"[green]✓[/] {len(lectures)} pages: {escape(str(index))}", soft_wrap=True)


@app.command()
def slides(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[LECTURE]...", help="Such as 1/05 or 05__dynamic_batcher."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="The folder of the slides. Default: .workbook/slides.")
    ] = None,
    executed: Annotated[
        Path | None, typer.Option("--from", help="Executed copies. Default: .workbook/executed.")
    ] = None,
) -> None:
    """Make slides of lectures, to present them: one HTML file each, which needs no network.

    Lectures that were changed since they ran are run first. Without a name: all of them.
    """
    from . import site

    folder = output or paths.state("slides")
    with out.status("Looking for lectures to run …") as shown:
        lectures = site.executed.everything(
            executed,
            lambda name: shown.update(f"Running {escape(name)} …"),
            site.slides.sources(names or ()),
        )
    for source, node in lectures.items():
        file = site.slides.write(node, folder / f"{source.parent.name}.html")
        out.print(f"[green]✓[/] {escape(str(file))}", soft_wrap=True)


@app.command()
def submit(
    name: Annotated[
        str | None, typer.Argument(help="The assignment, e.g. a2. Default: that of this folder.")
    ] = None,
    run: Annotated[bool, typer.Option(help="Run the notebook from top to bottom first.")] = True,
    force: Annotated[bool, typer.Option(help="Write the zip in spite of errors.")] = False,
) -> None:
    """Look your work over, and write the zip that you hand in."""
    from .assignments import submit

    assignment = submit.find_assignment(name, Path.cwd())
    submit.restore_name(assignment, confirm=_confirm)
    err.print(f"Your work: {escape(str(assignment.handout))}", soft_wrap=True)
    with _bar(f"Running {escape(assignment.release.name)}", transient=True) as progress:
        task = progress.add_task("", total=None, visible=run)
        submission = submit.check_submission(
            assignment,
            run=run,
            report=lambda done, total: progress.update(task, completed=done, total=total),
        )
    signs = {"error": "[bold red]✗[/]", "warning": "[yellow]![/]", "passed": "[green]✓[/]"}
    for finding in submission.findings:
        sign = signs[finding.level]
        place = f"{finding.task}, {finding.where}" if finding.task else finding.where
        err.print(f"{sign} {escape(place)}: {escape(finding.what)}")
        if finding.todo:
            err.print(f"  [dim]to do:[/] {escape(finding.todo)}")
    if not force:
        submit.check_errors(submission)
    err.print(escape(submit.contents(submission)), soft_wrap=True)
    path = submit.write(submission)
    written = f"{escape(str(path))} ({path.stat().st_size / 1024:.0f} KB)"
    out.print(f"[green]✓[/] {written}", soft_wrap=True)
    out.print("  Hand this file in.")
    if run and not submission.errors:
        out.print(f"  {submit.points(submission)}")


def _confirm(question: str) -> bool | None:
    """The user's answer; None where nobody can be asked."""
    return typer.confirm(question, err=True) if sys.stdin.isatty() else None


@app.command()
def doctor() -> None:
    """Check this machine for what the course needs, and say what to do about each fault."""
    from .lab import doctor

    raise typer.Exit(doctor.report())


def main() -> None:
    """The entry point: errors are sentences, Ctrl-C is quiet."""
    terminal.run(app, err, stopped=_KEPT)


def _announce(server: Server, how: str) -> None:
    out.print(f"[bold]Triton[/] {how}")
    out.print(f"  HTTP         {server.url}")
    out.print(f"  gRPC         {server.grpc_url}")
    out.print(f"  metrics      {server.metrics_url}")
    known = which_repository.repository(server)
    shown = "not known: TRITON_REPOSITORY can name it" if known is None else str(known)
    out.print(f"  repository   {escape(shown)}", soft_wrap=True)


def _list_lectures() -> None:
    """The servers of lectures, if there are any."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("lecture", "state", "memory", "HTTP, gRPC, metrics"):
        table.add_column(column)
    for server in server_status.lectures():
        colour = "green" if server.state == "running" else "yellow"
        memory = f"{server.memory_mib} MiB" if server.memory_mib else ""
        places = ", ".join(str(server.ports[name]) for name in ("http", "grpc", "metrics"))
        table.add_row(escape(server.notebook), f"[{colour}]{server.state}[/]", memory, places)
    if table.row_count:
        out.print()
        out.print(table)
        out.print(
            "A paused server has ended. It is started again when a cell of its notebook runs.",
            style="dim",
        )


def _say_notice(sentence: object) -> None:
    err.print(f"[yellow]{escape(str(sentence))}[/]")


def _say_warning(warning: ModelWarning) -> None:
    out.print(f"[yellow]![/] {escape(str(warning))}", soft_wrap=True)


def _say_line(sentence: str) -> None:
    """Print a sentence from a thread, between the lines that JupyterLab prints."""
    out.print(f"[green]✓[/] {escape(sentence)}", soft_wrap=True)


def _complain_line(error: WorkbookError) -> None:
    terminal.complain(err, error)


def _bar(title: str, *, transient: bool = False) -> Progress:
    """A progress bar with the number that are done, the time, and the last one's name."""
    count, last = (BarColumn(), MofNCompleteColumn()), TextColumn("{task.description}")
    columns = (TextColumn(title), *count, TimeElapsedColumn(), last)
    return Progress(*columns, console=err, transient=transient)


def _load_missing(server: Server, models: str) -> bool:
    """Load what `--models` asks for and the server lacks, under a progress bar.

    Returns:
        Whether models are still loading.
    """
    chosen = all_models.select(server, models)
    if chosen is None:
        return False
    missing = loading.missing(server, chosen)
    if not missing:
        out.print("All models are ready. `workbook status` lists them.")
        return False
    if len(missing) < len(chosen):
        out.print(f"Models that are not loaded yet: {escape(', '.join(missing))}.")
    with _bar("Loading models") as progress:
        task = progress.add_task("", total=len(missing))

        def report(name: str, error: WorkbookError | None) -> None:
            progress.update(task, advance=1, description=escape(name))

        errors = all_models.load_all(server, missing, report=report)
    loading.check_alive(server, errors.values())
    still = [name for name, error in errors.items() if isinstance(error, StillLoading)]
    for error in errors.values():
        if isinstance(error, StillLoading):
            _say_notice(f"{error.what} {error.todo}")
        else:
            terminal.complain(err, error)
    ready = len(missing) - len(errors)
    more = f"; still loading: {escape(', '.join(still))}" if still else ""
    out.print(f"{ready} of {len(missing)} models are ready{more}. `workbook status` lists them.")
    return bool(still)


def _table(models: Sequence[all_models.ModelStatus]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("model", "state", "versions", "backend", ""):
        table.add_column(column)
    for m in models:
        colour = {"READY": "green", "UNAVAILABLE": "red"}.get(m.state, "yellow")
        kind = {True: "stand-in", False: "", None: ""}[m.stand_in]
        ready = ", ".join(str(v) for v, s in sorted(m.versions.items()) if s == "READY")
        note = escape(m.reason.strip().splitlines()[0]) if m.reason else kind
        table.add_row(escape(m.name), f"[{colour}]{m.state}[/]", ready, escape(m.backend), note)
    return table


if __name__ == "__main__":
    main()
