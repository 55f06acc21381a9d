"""``hubarray completion``: scripts that complete commands and options, made from the parser itself."""

from __future__ import annotations

import argparse
from argparse import Namespace

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


def _commands() -> dict[str, tuple[str, list[str]]]:
    """Each command's summary and options."""
    top = argparse.ArgumentParser()
    subparsers = top.add_subparsers()
    for one in COMMANDS.values():
        one.add_to(subparsers)
    return {
        name: (COMMANDS[name].summary, [text for action in one._actions for text in action.option_strings])
        for name, one in subparsers.choices.items()
    }


def _bash(commands: dict[str, tuple[str, list[str]]]) -> str:
    cases = "\n".join(f"    {name}) words='{' '.join(options)}' ;;" for name, (_, options) in commands.items())
    # Bash takes names apart at their colons, so the word is taken from the line, and what is there already cut off.
    return f"""_hubarray() {{
  local line="${{COMP_LINE:0:COMP_POINT}}" words='{" ".join(commands)}'
  local word="${{line##* }}"
  local before="${{word%"${{word##*:}}"}}"
  if [ "$COMP_CWORD" -gt 1 ]; then
    case "${{COMP_WORDS[1]}}" in
{cases}
    *) words='' ;;
    esac
    if [ "${{word#-}}" = "$word" ]; then words="$words $({_NAMES})"; fi
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  COMPREPLY=("${{COMPREPLY[@]#"$before"}}")
}}
complete -o default -F _hubarray hubarray"""


def _zsh(commands: dict[str, tuple[str, list[str]]]) -> str:
    names = "\n".join(f"    '{name}:{summary}'" for name, (summary, _) in commands.items())
    cases = "\n".join(f"    {name}) compadd -- {' '.join(options)} ;;" for name, (_, options) in commands.items())
    return f"""#compdef hubarray
_hubarray() {{
  local -a commands=(
{names}
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  case "$words[2]" in
{cases}
  esac
  compadd -- ${{(f)"$({_NAMES})"}}
  _files
}}
compdef _hubarray hubarray"""


def _fish(commands: dict[str, tuple[str, list[str]]]) -> str:
    lines = []
    for name, (summary, options) in commands.items():
        lines.append(f"complete -c hubarray -n __fish_use_subcommand -a {name} -d '{summary}'")
        longs = [option.removeprefix("--") for option in options if option.startswith("--")]
        lines += [f"complete -c hubarray -n '__fish_seen_subcommand_from {name}' -l {option}" for option in longs]
    lines.append(f"complete -c hubarray -n 'not __fish_use_subcommand' -a '({_NAMES})'")
    return "\n".join(lines)
