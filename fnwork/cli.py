"""The command line: what can be typed, and how a failure ends; `fnwork.commands` does the work."""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

import fnwork
from engine.errors import InputError, RunError

DONE, RUN_FAILED, WRONG_INPUT, STOPPED = 0, 1, 2, 130
RUN = "a run's folder, its id, its name, a unique prefix of one, or `last`"
SPEC = "a spec file, or the name of one in experiments/specs"


class Parser(argparse.ArgumentParser):
    """argparse, with the nearest right word for a misspelt command and with whole sentences."""

    def __init__(self, **options: object):
        super().__init__(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **options)

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is not None and value not in action.choices:
            from fnwork.text import did_you_mean, harmless

            words = [str(choice) for choice in action.choices]
            hint = did_you_mean(str(value), words) or f"; there are: {', '.join(words)}"
            raise argparse.ArgumentError(None, f'there is no "{harmless(value)}" here{hint}')

    def parse_args(self, args: Sequence[str] | None = None, namespace: object = None) -> argparse.Namespace:
        """As argparse does it, but the nearest right option is named for one that is not known."""
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            from fnwork.text import did_you_mean, harmless

            parser = getattr(found, "parser", self)
            option = unknown[0].partition("=")[0]
            hint = did_you_mean(option, parser._option_string_actions) if option.startswith("-") else ""
            if hasattr(found, "set") and not hint and option.startswith("--"):
                hint = "; a key of the spec is changed with --set KEY=VALUE, such as --set train.epochs=3"
            parser.error(f"not understood: {harmless(unknown[0])}{hint}")
        return found


def build_parser() -> Parser:
    """The parser of every command; `do` in its result is "module:function" below `fnwork.commands`."""
    parser = Parser(
        prog="fnwork",
        description="A workbench in the terminal for training small networks. Without a command it opens the screen.",
        epilog="examples:\n  fnwork\n  fnwork run fashion-cnn\n  fnwork run fashion-mlp --set train.epochs=3\n"
        "  fnwork runs\n\n`fnwork COMMAND --help` tells more about each command.",
    )
    parser.add_argument("--version", action="version", version=f"fnwork {fnwork.__version__}")
    parser.add_argument("--experiments", metavar="DIR", type=Path, default=Path("experiments"), help=_EXPERIMENTS)
    parser.set_defaults(do="workbench:open_workbench", parser=parser, json=False)
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")

    def add(name: str, do: str, purpose: str, example: str, json: bool = False) -> argparse.ArgumentParser:
        command = commands.add_parser(
            name, help=purpose, description=f"{purpose[0].upper()}{purpose[1:]}.", epilog=f"example:\n  {example}"
        )
        command.add_argument("--experiments", metavar="DIR", type=Path, default=argparse.SUPPRESS, help=_EXPERIMENTS)
        if json:
            command.add_argument("--json", action="store_true", help="one JSON document on stdout, and nothing else")
        command.set_defaults(do=do, parser=command)
        return command

    def setting(command: argparse.ArgumentParser) -> None:
        command.add_argument(
            "--set",
            metavar="KEY=VALUE",
            action="append",
            default=[],
            help="change one key of the spec; may be repeated",
        )

    command = add("run", "training:run", "train without the screen", "fnwork run fashion-cnn --set train.lr=3e-4", True)
    command.add_argument("spec", metavar="SPEC", help=SPEC)
    setting(command)
    command = add("resume", "training:resume", "go on with a run from its last checkpoint", "fnwork resume last", True)
    command.add_argument("run", metavar="RUN", help=RUN)
    command = add("stop", "training:stop", "ask a run in another process to save and stop", "fnwork stop last")
    command.add_argument("run", metavar="RUN", help=RUN)
    command = add("attach", "workbench:attach", "watch a run of another process on the screen", "fnwork attach last")
    command.add_argument("run", metavar="RUN", help=RUN)

    command = add("check", "specs:check", "say all that is wrong with a spec, or nothing", "fnwork check fashion-cnn")
    command.add_argument("spec", metavar="SPEC", help=SPEC)
    setting(command)
    purpose = "the peak of memory by category and by layer, before anything is trained"
    command = add("forecast", "specs:forecast", purpose, "fnwork forecast fashion-cnn --set train.micro_batch=16", True)
    command.add_argument("spec", metavar="SPEC", help=SPEC)
    setting(command)
    purpose = "the cheapest settings that fit a memory budget, with their cost"
    command = add("fit", "specs:fit", purpose, "fnwork fit fashion-cnn --budget 512MiB", True)
    command.add_argument("spec", metavar="SPEC", help=SPEC)
    command.add_argument("--budget", metavar="SIZE", required=True, help="such as 4GiB or 512MiB")
    command.add_argument("--write", action="store_true", help="write the settings into the spec")

    example = 'fnwork runs --where "val_accuracy>0.8 and state=finished" --sort val_loss'
    command = add("runs", "records:runs", "list the archived runs, newest first", example, True)
    command.add_argument("--sort", metavar="KEY", help="best first: by a result, or by id, name, state, train.lr, ...")
    command.add_argument("--where", metavar="EXPR", help="only the runs for which this holds; and, or, not, ( ), ~")
    command = add(
        "show", "records:show", "one run: how it ended, its results, memory, checklist", "fnwork show last", True
    )
    command.add_argument("run", metavar="RUN", nargs="?", help=RUN)
    model = "instead of a run the network of a spec: its layers, their parameters, multiply-adds and memory"
    command.add_argument("--model", metavar="SPEC", dest="spec", help=model)
    purpose = "runs side by side: only the keys that differ, and the results"
    command = add("compare", "records:compare", purpose, "fnwork compare fashion-mlp fashion-cnn", True)
    command.add_argument("run", metavar="RUN", help=RUN)
    command.add_argument("others", metavar="RUN", nargs="+", help="one or more to compare with it")
    command = add("rm", "records:remove", "delete a run; asks first, unless --yes is given", "fnwork rm last")
    command.add_argument("run", metavar="RUN", help=RUN)
    command.add_argument("-y", "--yes", action="store_true", help="do not ask")
    command = add("note", "records:note", "replace a run's notes", 'fnwork note last "a higher rate"')
    command.add_argument("run", metavar="RUN", help=RUN)
    command.add_argument("text", metavar="TEXT", nargs="+", help="the new notes")
    command = add("tag", "records:tag", "add a tag to a run", "fnwork tag last baseline")
    command.add_argument("run", metavar="RUN", help=RUN)
    command.add_argument("tag", metavar="TAG", help="one word or a few")

    purpose = "predict with a run's best weights: pictures, the rows of a table, or arrays"
    command = add("predict", "models:predict", purpose, "fnwork predict last shoe.png pictures/", True)
    command.add_argument("run", metavar="RUN", help=RUN)
    files = "pictures and folders of them, tables as .csv, or .npz files with an array x"
    command.add_argument("files", metavar="FILE", type=Path, nargs="+", help=files)
    command.add_argument("--csv", action="store_true", help="one row an input on stdout, and nothing else")
    purpose = "a run's best weights on the test part of its data: accuracy, by class, what is mistaken for what"
    command = add("test", "models:test", purpose, "fnwork test last", True)
    command.add_argument("run", metavar="RUN", help=RUN)
    purpose = "write a run's curves (csv) or its best weights (safetensors) to a file"
    command = add("export", "models:export", purpose, "fnwork export last --to safetensors -o model.safetensors")
    command.add_argument("run", metavar="RUN", help=RUN)
    formats = ("csv", "safetensors")
    command.add_argument("--to", metavar="FORMAT", choices=formats, required=True, help=" or ".join(formats))
    command.add_argument("-o", "--output", metavar="FILE", help="default: the run's id and the format; - is stdout")

    purpose = "the data sets: list them, tell what is in one (info NAME or SPEC), download one (get NAME)"
    command = add("data", "datasets:data", purpose, "fnwork data get cifar10", True)
    command.add_argument("what", choices=("list", "info", "get"), metavar="list|info|get", nargs="?", default="list")
    command.add_argument("name", metavar="NAME", nargs="?", help="a data set, or a spec whose data set is meant")
    help = "info: where its files lie, when they are not bundled; get: where to put them, instead of the user's cache"
    command.add_argument("--path", metavar="PATH", default="", help=help)
    command.add_argument("--mirror", metavar="URL", default="", help="get: the folder on the web to download from")
    add(
        "doctor",
        "doctor:doctor",
        "what this machine lacks, and the one command that mends it",
        "fnwork doctor --json",
        True,
    )
    return parser


_EXPERIMENTS = "the folder of specs and runs (default: experiments)"


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the arguments say and return the exit code: 0 done, 1 the run failed, 2 wrong input, 130 stopped."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a name that the terminal's encoding lacks is no reason to fail
    try:
        words = list(sys.argv[1:] if argv is None else argv)
        if words[:1] == ["help"]:
            words = [*words[1:2], "--help"]
        arguments = build_parser().parse_args(words)
        module, function = arguments.do.split(":")
        code = getattr(importlib.import_module(f"fnwork.commands.{module}"), function)(arguments)
        sys.stdout.flush()
        return code
    except SystemExit as ended:  # argparse's way: --help, --version, wrong arguments
        return ended.code if isinstance(ended.code, int) else WRONG_INPUT
    except KeyboardInterrupt:
        return _say("stopped", STOPPED)
    except BrokenPipeError:
        let_go(sys.stdout)
        return DONE
    except (InputError, OSError, MemoryError, RunError) as error:
        return _failed(error)


def _failed(error: Exception) -> int:
    if isinstance(error, RunError):
        return _say(str(error), RUN_FAILED)
    if isinstance(error, MemoryError):
        return _say("the machine has no memory left for this", RUN_FAILED)
    if isinstance(error, OSError):
        from fnwork.files import reason
        from fnwork.text import harmless

        return _say(
            f"{harmless(error.filename)}: {reason(error)}"
            if error.filename
            else f"cannot read or write: {reason(error)}",
            WRONG_INPUT,
        )
    return _say(str(error), WRONG_INPUT)


def _say(message: str, code: int) -> int:
    from fnwork.text import harmless

    print(harmless(message, keep_lines=True), file=sys.stderr)
    return code


def let_go(stream: TextIO) -> None:
    """The reader of a pipe has what it wanted (`fnwork runs | head -1`); nothing more may be flushed into it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
