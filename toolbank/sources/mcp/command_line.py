"""Show a command to the user who has to allow it, with everything that decides what is started.

The author of a command chooses each of its words, so a word is hidden only if it is the value of
something secret and can't be a program, a package, code, a path or an address. `system/secret_values.py`
is more generous: it keeps secrets out of files and messages, where no command has to be checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolbank.system.consent import GrantValue
from toolbank.system.secrets import find_spans, is_issued, merge_spans, named_secret
from toolbank.system.text import decode_json

_LONGEST = 16_384
"""No secret is longer; a program or a list of them may be."""


_LONGEST_CODE = 4_096
"""In longer code a variable counts as used by the stricter rule, which takes linear time."""


def _split(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Programs that run text of their own command line as code, whatever comes before it.
_RUN_TEXT = _split(
    "git make just task find xargs ssh su watch eval source awk gawk mawk nawk sed "
    "osascript expect emacs vim vi nvim gdb lldb m4 parallel script entr tmux screen at "
    "batch mshta rundll32 regsvr32 wscript cscript"
)
_INTERPRETERS = _split(
    "sh bash dash zsh ksh mksh ash fish csh tcsh nu elvish xonsh busybox toybox pwsh "
    "powershell python pypy ipython node nodejs deno bun tsx perl ruby irb php lua "
    "luajit tclsh wish r rscript julia ghc runghc groovy scala elixir iex erl jshell "
    "guile racket sbcl octave su-exec"
)
_LAUNCHERS = _split(
    "npx npm pnpm pnpx yarn yarnpkg bunx bun env sudo doas nice nohup time timeout stdbuf setsid flock chroot "
    "unshare nsenter bwrap firejail strace cmd start command exec dotenv dotenvx cross-env "
    "cross-env-shell uv uvx pipx pip poetry pdm hatch rye pixi conda mamba "
    "micromamba docker podman nerdctl kubectl go cargo dotnet java nix nix-shell nix-build "
    "bundle gem mise asdf direnv volta fnm nvm op doppler systemd-run "
    "corepack deno"
)
_PROGRAMS = _LAUNCHERS | _INTERPRETERS | _RUN_TEXT
# Names of programs that are also common arguments, as in `server start`.
_ALSO_WORDS = _RUN_TEXT | _split(
    "start command exec time r go op nice cmd dotenv pip wish env timeout nix gem volta strace"
)
_CONTAINERS = _split("docker podman nerdctl kubectl")
_WINDOWS = _split("cmd powershell pwsh")
_SET_VARIABLES = _split("env sudo doas cross-env cross-env-shell dotenv")
_TAKE_A_WORD_FIRST = _split("timeout flock chroot mise")
"""Launchers with a duration, a file or a tool in front of the program."""
_SUBCOMMANDS = _split(
    "exec x dlx run run-script create init start tool compose container"
)
_PROGRAM = re.compile(r"[\w@.~/\\][^=]*$")
# Options without a value, after which the next word is the program, package or script.
_FLAGS = _split(
    "-y --yes --no --no-install -q --quiet --silent --offline --prefer-offline "
    "--prefer-online --ignore-existing --bun -b -i -t -it -d --rm --init -- /c /C"
)
_OWN_FLAGS = {
    "python": re.compile(r"-[BdEhiIOPqsSuvVx]+"),
    "node": re.compile(
        r"--(?:no-warnings|no-deprecation|enable-source-maps|trace-warnings|inspect"
        r"|experimental-(?:strip-types|modules|fetch))"
    ),
    "bash": re.compile(r"--?(?:norc|noprofile|login)"),
    "deno": re.compile(r"-A|--allow-\w+|--no-(?:check|lock|prompt)"),
    "docker": re.compile(r"--(?:privileged|read-only|tty|interactive|detach)"),
    "sudo": re.compile(r"-[EHn]+"),
    "uv": re.compile(
        r"--(?:frozen|locked|isolated|no-project|no-sync|no-cache|refresh|native-tls|verbose)"
    ),
    "uvx": re.compile(r"--(?:isolated|no-cache|refresh|native-tls|verbose)"),
}
_NAME_PROGRAM = {"python": "-m", "pypy": "-m", "java": "-jar"}
_INLINE = re.compile(
    r"-[A-Za-z0-9]{0,4}[ceEp].*|--?(?:e(?:val|xec|xpr|xecute)|print|run|code|cmd|command|call"
    r"|split-string|encodedcommand)(?:=.*)?|eval|-S.*|/k",
    re.IGNORECASE | re.DOTALL,
)
"""Options after which an interpreter runs the words that follow as code."""
_NO_CODE = {
    "python": _OWN_FLAGS["python"],
    "node": re.compile(r"--(?!eval|print).*"),
    "bash": _OWN_FLAGS["bash"],
}
_LAUNCHER_CODE = {
    "env": re.compile(r"-\w*S.*|--split-string.*", re.DOTALL),
    "npx": re.compile(r"-c.*|--call.*", re.DOTALL),
    "npm": re.compile(r"-c.*|--call.*", re.DOTALL),
    "pnpm": re.compile(r"-c|--shell-mode"),
    "cmd": re.compile(r"/[kK].*"),
    "flock": re.compile(r"-c|--command.*"),
    "nix-shell": re.compile(r"--(?:run|command)"),
    "nix": re.compile(r"-c|--(?:expr|command)"),
}

_STEERING_VARIABLE = re.compile(
    r"(?i)LD_.*|DYLD_.*|GIT_.*|NODE_.*|PYTHON.*|RUBY.*|PERL.*|JAVA_.*|JDK_.*|_JAVA.*|LUA_.*|R_.*|GO.*FLAGS"
    r"|(?:NPM|PIP|UV|YARN|PNPM|BUN|DENO|CARGO|RUSTC?|BUNDLE|GEM|MAVEN|GRADLE|DOCKER)_CONFIG.*|ENV|ZDOTDIR"
    r"|.*(?:OPTIONS|OPTS?|FLAGS|ARGS|RC|_ENV|PATH|DIRS?|HOME|EDITOR|PAGER|BROWSER|SHELL|PROXY|ASKPASS)"
    r"|.*(?:CONFIG|CONF(?:_|$)|PRELOAD|ALIAS).*|BASH_FUNC.*|COR_.*|CORECLR_.*|DOTNET_.*"
    r"|.*(?:FILES?|WRAPPER|COMPILER|LINKER|PROFILER|LAUNCHER|HOOKS?)|LESS.*|TERMINFO|CC|CXX|CPP|AR|AS|LD"
    r"|PROMPT_COMMAND|PS[0-4]|IFS|VISUAL|BORG_PASSCOMMAND"
)
_PLAIN_VARIABLE = re.compile(
    r"(?i)(?:.*[_-])?(?:TOKEN|PASSWORD|PASSWD|PASSPHRASE|SECRET|API_?KEY)|.*[_-](?:KEY|PAT)"
)
"""NODE_AUTH_TOKEN and GIT_PASSWORD: nothing that reads them runs them."""
_STEERING_WORD = re.compile(
    r"(?:plugin|module|package|pkg|backend|class|handler|script|hook|factory|driver|adapter|callback"
    r"|config|conf|executable|exec|program|cmd|command|bin|binary|loader|import|require|preload"
    r"|extension|librar(?:y|ie)|lib|engine|source|registry|image|app|entry|entrypoint|interpreter|agent"
    r"|helper|alias|code|expression|expr|eval|target|server|url|uri|host|address|repo|repository|branch"
    r"|ref|tag|version|init|startup|profile|file|path|dir|folder|template|function|manager|provider"
    r"|exporter|runner|tool|from|index|option|opt|arg|flag|proxy|pager|editor|shell)s?"
)
"""Last words of names whose value may say what is loaded, as in --auth-plugin."""
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

_CHARACTERS = r"[A-Za-z0-9_][A-Za-z0-9_.+/=:@!#,*~-]*"
_TOKEN = re.compile(_CHARACTERS)
_LOCATION = re.compile(
    r".*(?:://|\.\.|//).*|[A-Za-z]:[\\/].*|(?:~|\.{1,2})?/.*"
    r"|(?:https?|file|data|git|npm|jsr|github|gitlab|bitbucket|gist|link|workspace|node|docker|oci|pkg"
    r"|javascript|blob|import)[:+].*"
    r"|.*@(?:latest|next|v?\d+\.[\w.-]*)|(?:[a-z0-9-]+\.)+[a-z]{2,}(?::\d+)?(?:/.*)?"
    r"|.*\.(?:py[cozwd]?|[cm]?[jt]sx?|sh|so|dylib|dll|node|jar|class|rb|pl|pm|lua|exe|bat|cmd|ps1|json"
    r"|ya?ml|toml|conf|cfg|ini|php|wasm|whl|egg|zip|tgz|gz|tar|bin|el|vim|r|jl|go|rs)",
    re.IGNORECASE | re.DOTALL,
)
_PLACE = re.compile(
    r"[A-Za-z][\w+.-]*://.*|(?:~|\.{1,2})/.*|[A-Za-z]:[\\/].*", re.DOTALL
)
"""What is a path or an address even where a password is expected."""
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_ASSIGNED = re.compile(r"(-{0,2}[A-Za-z_][\w.-]*)=(.+)", re.DOTALL)
_SETS = re.compile(r"(?:-e|--env)?=?([A-Za-z_]\w*)=(.*)", re.DOTALL)
_HEADER = re.compile(
    rf"([A-Za-z][\w-]*): ?(?:(?i:bearer|basic|token|bot|apikey) +)?({_CHARACTERS})"
)
_SCHEME = re.compile(rf"(?i:bearer|basic) ({_CHARACTERS})")
_AFTER_NAME = re.compile(rf"(?i:bearer|basic|token) ({_CHARACTERS})")
_PAIR = re.compile(rf"(?<![\w.-])([A-Za-z_][\w.-]*)=({_CHARACTERS})(?=[&;,\s\"']|$)")
_MEMBER = re.compile(
    rf"\"([\w.-]+)\"\s*:\s*\"(?:(?i:bearer|basic|token|bot) )?({_CHARACTERS})\""
)
_LOGIN = re.compile(rf"[\w.-]+:(?!\d+$)({_CHARACTERS})")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s\\'\"`$;|<>(){}]+")
_URL_PASSWORD = re.compile(r"://([^/?#@:]*):([^/?#@:&^]+)@(?=[\w\[])")
_ANY_URL_PASSWORD = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#:\s]*:([^/?#\s]+)@(?=[\w\[])[^/?#\s@]*(?:[/?#]\S*)?"
)
_URL_USER = re.compile(r"://([^/?#@:]+)@(?=[\w\[])")
_QUERY = re.compile(r"[?&]([\w.-]+)=([A-Za-z0-9_.~%+=:-]+)(?=[&#]|$)")
_WEBHOOK = re.compile(
    r"https://(?:hooks\.slack\.com/services/\w+/\w+|discord(?:app)?\.com/api/webhooks/\d+"
    r"|mcp\.zapier\.com/api/mcp/[as])/([\w=-]{16,})(?=[/?]|$)"
)
# What reads variables without their names.
_READS_ALL = re.compile(
    r"\b(?:eval|environ|printenv|env|getenv|ENV|set|declare|export|compgen|base64)\b|\bexec\s*\(|\$\{!"
    r"|\bimport\b|\brequire\b|\bsource\b|(?:^|[\s;&|])\. "
)
_SHELL_READS_ALL = re.compile(
    r"\b(?:eval|environ|ENVIRON|printenv|getenv|ENV|compgen|base64|ps|deno|[gmn]?awk)\b"
    r"|(?<![\w.-])env(?![\w.=-])|process\.env|/proc/|\$\{[!(]|\$'"
    r"|\b(?:set|declare|typeset|export|local|readonly)\s*(?:$|\d?[;&|)`<>}\n])"
    r"|\b(?:declare|typeset|export|local|readonly)\s+-\w*[pn]"
    r"|\b(?:node|nodejs|bun|tsx|python[\d.]*|perl|ruby|php|lua|pwsh|powershell)\b[^;&|\n]*"
    r"\s--?(?:\w*[ceEpr]|eval|print)(?!\w)"
    r"|(?:^|[;&|({`\n]|\s-\w*c|\b(?:do|then|else|exec|command)\b)\s*(?:\w+=\S*\s+)*"
    r"[^\s;&|=$]*\$(?!HOME\b|\{HOME\})"
)
"""The same in code of a shell; `.env`, `source FILE`, `set -e` and `export A=1` read nothing."""
_PREPARES = re.compile(
    r"\beval \"?\$\((?:[\w./~-]*/)?(?:fnm|nvm|brew|mise|rtx|direnv|pyenv|rbenv|nodenv|asdf|ssh-agent)"
    r"(?: [\w./~=-]+)*\)\"?"
)
"""eval "$(fnm env)": a tool's settings for the shell."""
_SHELLS = _split("sh bash dash zsh ksh ash")

_AUTHORIZATION = re.compile(
    rf"(?i:(?:proxy-)?authorization): ?(?i:bearer|basic|token) ({_CHARACTERS})"
)

_SEEN = 100
"""Characters before a variable in which the option or header that it is given to is looked for."""
_GIVEN_TO = re.compile(
    r"(?<![\w-])(--?[\w-]+|[A-Za-z][\w-]*(?=: ?))(?:[= ]|: ?)[\"']?(?i:(?:bearer|basic|token|bot) )?$"
)

Span = tuple[int, int]


@dataclass(frozen=True)
class _Argument:
    word: str
    option: str = ""
    is_hideable: bool = False
    """Whether the program that a launcher starts is certain, and this word comes after it."""
    may_assign: bool = False
    """Whether NAME=VALUE is a value with its name here."""
    is_variable: bool = False
    before: str = ""
    is_for_cmd: bool = False
    """Whether a shell of Windows may read it, to which `&` ends a command."""


def hide_in_command(
    command: Sequence[str], environment: Mapping[str, str]
) -> tuple[tuple[GrantValue, ...], tuple[tuple[str, GrantValue], ...]]:
    """The words and the variables, with the places of the secrets that may be hidden in them."""
    arguments, code = _read_arguments(command)
    words = (
        GrantValue(one.word)
        if code and _is_run(one.word, command[number:], code)
        else _hide(one.word, _find_in_argument(one))
        for number, one in enumerate(arguments, 1)
    )
    text = " ".join(command)
    variables = (
        (name, _hide(value, _find_in_variable(name, value, text, code)))
        for name, value in environment.items()
    )
    return tuple(words), tuple(variables)


def _hide(value: str, spans: Iterator[Span]) -> GrantValue:
    return GrantValue(value, tuple(merge_spans(spans)))


def _read_arguments(command: Sequence[str]) -> tuple[list[_Argument], str]:
    """The words with the option before each; and the program of those that are code, or ""."""
    arguments: list[_Argument] = []
    program, option, waiting, is_code = "", "", 1, False
    # Whether the script may only have been the value of an option: bash -o pipefail -c CODE.
    is_unsure, is_for_cmd = True, False
    for number, word in enumerate(command):
        name = _name_program(word)
        before = command[number - 1] if number else ""
        is_for_cmd = is_for_cmd or name in _WINDOWS or word.endswith((".cmd", ".bat"))
        is_option = word.startswith("-") or (program == "cmd" and word.startswith("/"))
        is_place = number == 0 or waiting or option == "--" or program in _CONTAINERS
        if is_code:
            arguments.append(_Argument(word))
        elif number == 0 or (
            name in _PROGRAMS and (is_place or name not in _ALSO_WORDS)
        ):
            arguments.append(_Argument(word))
            program, option = name, ""
            is_unsure = name in _LAUNCHERS | _INTERPRETERS
            waiting = int(is_unsure) + (name in _TAKE_A_WORD_FIRST)
            is_code = name in _RUN_TEXT
        elif is_unsure and _starts_code(program, word):
            arguments.append(_Argument(word))
            is_code = True
        elif is_option:
            arguments.append(
                _Argument(word, "", not waiting, True, is_for_cmd=is_for_cmd)
            )
            option = "" if "=" in word else word
        else:
            is_variable = bool(_ASSIGNED.fullmatch(word)) and (
                program in _SET_VARIABLES
                or (program in _CONTAINERS and option in ("-e", "--env"))
            )
            may_assign = not waiting or is_variable
            hideable = (not waiting, may_assign, is_variable, before, is_for_cmd)
            arguments.append(_Argument(word, option, *hideable))
            is_named = bool(option) and option == _NAME_PROGRAM.get(program)
            is_value = bool(option) and not (is_named or _is_flag(program, option))
            is_command = word in _SUBCOMMANDS and program not in ("npx", "bunx")
            if _PROGRAM.match(word) and not (is_command or is_value or is_variable):
                waiting = max(0, waiting - 1)
                is_unsure = is_unsure and is_named
            option = ""
    return arguments, program if is_code else ""


def _is_flag(program: str, option: str) -> bool:
    """Whether an option is known to have no value, so that the next word is the program."""
    own = _OWN_FLAGS.get(program)
    return option in _FLAGS or bool(own and own.fullmatch(option))


def _name_program(word: str) -> str:
    name = re.split(r"[/\\]", word)[-1].lower().strip()
    name = re.sub(r"\.(?:exe|cmd|bat|ps1)$", "", name)
    return re.sub(r"(?<=[a-z])[\d.]+$", "", name)


def _starts_code(program: str, word: str) -> bool:
    if program in _INTERPRETERS and _INLINE.fullmatch(word):
        harmless = _NO_CODE.get(program)
        return not (harmless and harmless.fullmatch(word))
    pattern = _LAUNCHER_CODE.get(program)
    return bool(pattern and pattern.fullmatch(word))


def _find_in_argument(argument: _Argument) -> Iterator[Span]:
    word, option, start = argument.word, argument.option, 0
    can_be_value, is_variable = argument.is_hideable, argument.is_variable
    while argument.may_assign and (match := _ASSIGNED.fullmatch(word, start)):
        if "://" in match[1] or (start and _steers(option)):
            break
        is_variable = is_variable or option in ("-e", "--env")
        option, start, can_be_value = match[1], match.start(2), True
    if start and not argument.is_hideable and not argument.may_assign:
        return
    rest = word[start:]
    is_certain = argument.is_hideable
    with_query = is_certain and not _steers(option)
    any_password = is_certain and not argument.is_for_cmd
    yield from _shift(_find_in_url(rest, with_query, any_password), start)
    if not can_be_value:
        return
    if rest.startswith("{") and _is_json(rest):
        for member in _MEMBER.finditer(rest):
            if named_secret(member[1]):
                yield from _shift(_find_group(member, 1, 2), start)
    sent = _AFTER_NAME.fullmatch(rest)
    if sent and is_certain and named_secret(argument.before):
        yield from _shift(iter([sent.span(1)]), start)
    if _steers(option):
        return
    # A word that no name makes a secret may be the program, whoever seems to have issued it.
    if is_variable or named_secret(option) or option in ("-t", "-k"):
        yield from _shift(_find_token(rest, option), start)
    if option == "-H" or "header" in option.lower():
        if sent := _AUTHORIZATION.fullmatch(rest):
            yield from _shift(iter([sent.span(1)]), start)
        elif header := _HEADER.fullmatch(rest):
            yield from _shift(_find_group(header, 1, 2), start)
    if option in ("-u", "--user") and (login := _LOGIN.fullmatch(rest)):
        yield from _shift(iter([login.span(1)]), start)


def _find_in_variable(name: str, value: str, command: str, code: str) -> Iterator[Span]:
    steers = bool(_STEERING_VARIABLE.fullmatch(name))
    is_plain = bool(_PLAIN_VARIABLE.fullmatch(name)) and named_secret(name)
    is_token = _is_plain_token(value) if is_plain else _is_token(value)
    is_read = _is_read(name, command, code, is_plain and is_token)
    is_address = not steers or name.upper().endswith(("PROXY", "URL", "URI"))
    yield from _find_in_url(value, not steers, is_address and not is_read)
    if (header := _AUTHORIZATION.fullmatch(value)) and not code:
        yield header.span(1)
    if _steers_variable(name) or len(value) > _LONGEST or is_read:
        return
    if code and not is_token:
        return
    if named_secret(name):
        words = value.split()
        is_location = _is_place if is_plain else _is_location
        if words and not (len(words) == 1 and is_location(words[0])):
            yield from find_spans(value, name)
        return
    yield from _find_token(value, name)
    patterns = [_PAIR, *([_MEMBER] if _is_json(value) else [])]
    for pattern in patterns:
        for match in pattern.finditer(value):
            yield from _find_group(match, 1, 2)
    if header := _HEADER.fullmatch(value):
        yield from _find_group(header, 1, 2)
    if scheme := _SCHEME.fullmatch(value):
        yield scheme.span(1)
    if is_token and "/" not in value and find_spans(value, name):
        yield 0, len(value)


def _find_token(value: str, name: str) -> Iterator[Span]:
    """The whole value if its name is a secret's or an issuer has marked it, and it is a token."""
    is_letter = len(name.lstrip("-")) == 1 and name not in ("-t", "-k")
    if (is_issued(value) and _TOKEN.fullmatch(value) and not is_letter) or (
        named_secret(name) and _is_token(value) and find_spans(value, name)
    ):
        yield 0, len(value)


def _find_group(match: re.Match[str], name: int, value: int) -> Iterator[Span]:
    if not _steers(match[name]):
        yield from _shift(_find_token(match[value], match[name]), match.start(value))


def _find_in_url(value: str, with_query: bool, any_password: bool) -> Iterator[Span]:
    if any_password and (password := _ANY_URL_PASSWORD.fullmatch(value)):
        yield password.span(1)
    elif password := _URL_PASSWORD.search(value) if _URL.fullmatch(value) else None:
        yield password.span(2)
    if not _URL.fullmatch(value):
        return
    if (user := _URL_USER.search(value)) and find_spans(f"://{user[1]}@x"):
        yield user.span(1)
    for match in _QUERY.finditer(value) if with_query else ():
        yield from _find_group(match, 1, 2)
    if webhook := _WEBHOOK.match(value):
        yield webhook.span(1)


def _shift(spans: Iterator[Span], by: int) -> Iterator[Span]:
    return ((start + by, end + by) for start, end in spans)


def _steers(name: str) -> bool:
    """Whether the value of an option, header or member may say what is loaded."""
    words = [word.lower() for word in _WORDS.findall(name)]
    return (bool(words) and bool(_STEERING_WORD.fullmatch(words[-1]))) or (
        name.lstrip("-").isupper() and _steers_variable(name)
    )


def _steers_variable(name: str) -> bool:
    if _PLAIN_VARIABLE.fullmatch(name):
        return False
    words = [word.lower() for word in _WORDS.findall(name)]
    return bool(_STEERING_VARIABLE.fullmatch(name)) or bool(
        words and _STEERING_WORD.fullmatch(words[-1])
    )


def _is_token(value: str) -> bool:
    if is_issued(value):
        return len(value) <= _LONGEST and bool(_TOKEN.fullmatch(value))
    if len(value) > _LONGEST or not _TOKEN.fullmatch(value) or _is_location(value):
        return False
    is_random = _BASE64.fullmatch(value) and find_spans(value) == [(0, len(value))]
    return "/" not in value or bool(is_random)


def _is_plain_token(value: str) -> bool:
    if len(value) > _LONGEST or not _TOKEN.fullmatch(value):
        return False
    return is_issued(value) or not _is_place(value)


def _is_place(value: str) -> bool:
    """Whether a password would be a path or an address, and not only look a little like one."""
    if _PLACE.fullmatch(value):
        return True
    try:
        folder = Path(value).parent
        is_in_folder = value.startswith("/") and folder.as_posix().strip("/")
        return Path(value).exists() or bool(is_in_folder and folder.exists())
    except (OSError, ValueError):
        return False


def _is_location(value: str) -> bool:
    """Whether a value may be a path, a file, an address or a version of a package."""
    if is_issued(value):
        return False
    try:
        return bool(_LOCATION.fullmatch(value)) or Path(value).exists()
    except (OSError, ValueError):
        return False


def _is_read(name: str, command: str, code: str, is_plain: bool) -> bool:
    """Whether words of the command use a variable, other than as the value of something secret."""
    use = re.compile(rf"\$\{{?{re.escape(name)}\}}?(?=[\"'\s]|$)")
    rest, last = "", 0
    for match in use.finditer(command):
        start = match.start()
        given = _GIVEN_TO.search(command[max(0, start - _SEEN) : start])
        is_value = given and named_secret(given[1]) and not _steers(given[1])
        rest += command[last : start if is_value else match.end()]
        last = match.end()
    rest += command[last:]
    if not code:
        return bool(re.search(rf"(?:\$\{{?|%|!|env:){re.escape(name)}(?!\w)", rest))
    rest = re.sub(rf"(?:-e|--env)[= ]{re.escape(name)}(?=[\s\"']|$)", " ", rest)
    if is_plain and code in _SHELLS and len(rest) <= _LONGEST_CODE:
        rest = _PREPARES.sub(" true ", rest)
        bare = re.sub(r"[\"'\\]", "", rest)
        return name in bare or any(map(_SHELL_READS_ALL.search, (rest, bare)))
    return name in rest or bool(_READS_ALL.search(rest))


def _is_run(word: str, others: Sequence[str], code: str) -> bool:
    """Whether a word sets a variable that code of the words after it uses."""
    match = _SETS.fullmatch(word)
    if not match:
        return False
    name, value = match.groups()
    is_plain = bool(_PLAIN_VARIABLE.fullmatch(name)) and _is_plain_token(value)
    return _is_read(name, " ".join(others), code, is_plain)


def _is_json(value: str) -> bool:
    try:
        return isinstance(decode_json(value), dict)
    except ValueError:
        return False
