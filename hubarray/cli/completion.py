"""``hubarray completion``: scripts that complete commands and options, made from the parser itself."""

from __future__ import annotations

import argparse
import shlex
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hubarray.cli.command import COMMANDS, DONE, argument, command
from hubarray.cli.output import Output

SHELLS = ("bash", "zsh", "fish")
_NAMES = "hubarray ls 2>/dev/null | cut -d ' ' -f 1"


@command(
    "completion",
    "Print a script that completes commands and options in a shell.",
    examples=("source <(hubarray completion bash)", "hubarray completion zsh > ~/.zfunc/_hubarray"),
    arguments=[argument("shell", choices=SHELLS)],
    json=False,
)
def completion(arguments: Namespace, output: Output) -> int:
    """Print the script of a shell."""
    commands = _commands()
    output.value(None, {"bash": _bash, "zsh": _zsh, "fish": _fish}[arguments.shell](commands).split("\n"))
    return DONE


@dataclass(frozen=True)
class _Words:
    """Words that can follow a command."""

    summary: str
    options: dict[str, Sequence[str]]  # Of each option, the values that it can have, where they are few.
    words: Sequence[str]  # The values of its positional arguments, where they are few.


def _commands() -> dict[str, _Words]:
    top = argparse.ArgumentParser()
    subparsers = top.add_subparsers()
    for each_command in COMMANDS.values():
        each_command.add_to(subparsers)
    described = {}
    for name, parser in subparsers.choices.items():
        options: dict[str, Sequence[str]] = {
            text: tuple(action.choices or ()) for action in parser._actions for text in action.option_strings
        }
        words = [word for action in parser._actions if not action.option_strings for word in action.choices or ()]
        described[name] = _Words(COMMANDS[name].summary, options, words)
    return described


def _values(commands: Mapping[str, _Words]) -> dict[str, Sequence[str]]:
    """The values of options that have a few. No two commands differ in those of one option."""
    return {option: values for words in commands.values() for option, values in words.options.items() if values}


def _bash(commands: Mapping[str, _Words]) -> str:
    cases = "\n".join(
        f"    {name}) words='{' '.join([*words.options, *words.words])}' ;;" for name, words in commands.items()
    )
    values = "\n".join(
        f"    {option}) words='{' '.join(values)}'; names='' ;;" for option, values in _values(commands).items()
    )
    # Bash takes names apart at their colons, so the word is taken from the line, and what is there already cut off.
    return f"""_hubarray() {{
  local line="${{COMP_LINE:0:COMP_POINT}}" words='{" ".join(commands)}' names=1
  local word="${{line##* }}"
  local before="${{word%"${{word##*:}}"}}"
  if [ "$COMP_CWORD" -gt 1 ]; then
    case "${{COMP_WORDS[1]}}" in
{cases}
    *) words='' ;;
    esac
    case "${{COMP_WORDS[COMP_CWORD-1]}}" in
{values}
    esac
    if [ -n "$names" ] && [ "${{word#-}}" = "$word" ]; then words="$words $({_NAMES})"; fi
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  COMPREPLY=("${{COMPREPLY[@]#"$before"}}")
}}
complete -o default -F _hubarray hubarray"""


def _zsh(commands: Mapping[str, _Words]) -> str:
    summaries = "\n".join("    " + shlex.quote(f"{name}:{words.summary}") for name, words in commands.items())
    cases = "\n".join(
        f"    {name}) compadd -- {' '.join([*words.options, *words.words])} ;;" for name, words in commands.items()
    )
    values = "\n".join(
        f"    {option}) compadd -- {' '.join(values)}; return ;;" for option, values in _values(commands).items()
    )
    return f"""#compdef hubarray
_hubarray() {{
  local -a commands=(
{summaries}
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  case "$words[CURRENT-1]" in
{values}
  esac
  case "$words[2]" in
{cases}
  esac
  compadd -- ${{(f)"$({_NAMES})"}}
  _files
}}
compdef _hubarray hubarray"""


def _fish(commands: Mapping[str, _Words]) -> str:
    lines = []
    for name, words in commands.items():
        lines.append(f"complete -c hubarray -n __fish_use_subcommand -a {name} -d {_fish_quoted(words.summary)}")
        condition = f"complete -c hubarray -n '__fish_seen_subcommand_from {name}'"
        for option, values in words.options.items():
            if option.startswith("--"):
                rest = f" -x -a '{' '.join(values)}'" if values else ""
                lines.append(f"{condition} -l {option.removeprefix('--')}{rest}")
        if words.words:
            lines.append(f"{condition} -a '{' '.join(words.words)}'")
    lines.append(f"complete -c hubarray -n 'not __fish_use_subcommand' -a {_fish_quoted(f'({_NAMES})')}")
    return "\n".join(lines)


def _fish_quoted(text: str) -> str:
    """In single quotes, in which fish has two escapes."""
    text = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{text}'"
