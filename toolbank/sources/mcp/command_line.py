"""Show a command to the person who has to allow it, with all that decides what is started.

The author of a command chooses each of its words, so a word is hidden only if it is the value of
something secret and can't be a program, a package, code, a path or an address. `system/secret_values.py`
is more generous: it keeps secrets out of files and messages, where no command has to be checked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolbank.system.secret_values import find_spans, is_issued, named_secret
from toolbank.system.secrets import hash_secret, show_unseen

_LONGEST = 16_384
"""No secret is longer; a program or a list of them may be."""


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
_UNKNOWN_OPTIONS = _split("npx npm pnpm pnpx yarn yarnpkg bunx bun")
"""They take options that they don't know, so that the word after one may be the package."""
_LAUNCHERS = _UNKNOWN_OPTIONS | _split(
    "env sudo doas nice nohup time timeout stdbuf setsid flock chroot "
    "unshare nsenter bwrap firejail strace cmd start command exec dotenv dotenvx cross-env "
    "cross-env-shell uv uvx pipx pip poetry pdm hatch rye pixi conda mamba "
    "micromamba docker podman nerdctl kubectl go cargo dotnet java nix nix-shell nix-build "
    "bundle gem mise asdf direnv volta fnm nvm op doppler systemd-run "
    "corepack deno"
)
_PROGRAMS = _LAUNCHERS | _INTERPRETERS | _RUN_TEXT
# Names of programs that are also words of what a server is told, such as `server start`.
_ALSO_WORDS = _RUN_TEXT | _split(
    "start command exec time r go op nice cmd dotenv pip wish env timeout nix gem volta strace"
)
_CONTAINERS = _split("docker podman nerdctl kubectl")
_SET_VARIABLES = _split("env sudo doas cross-env cross-env-shell dotenv")
_SUBCOMMANDS = _split(
    "exec x dlx run run-script create init start tool compose container"
)
_PROGRAM = re.compile(r"[\w@.~/\\][^=]*$")
# Options without a value, after which the next word is the program, package or script.
_FLAGS = _split(
    "-y --yes --no --no-install -q --quiet --silent --offline --prefer-offline "
    "--prefer-online --ignore-existing --bun -b -i -t -it -d --rm --init -- /c /C"
)
_INLINE = re.compile(
    r"-[A-Za-z0-9]{0,4}[ceEp].*|--?(?:e(?:val|xec|xpr|xecute)|print|run|code|cmd|command|call"
    r"|split-string|encodedcommand)(?:=.*)?|eval|-S.*|/k",
    re.IGNORECASE | re.DOTALL,
)
"""Options after which an interpreter runs the words that follow as code."""
_NO_CODE = {
    "python": re.compile(r"-[BdEhiIOPqsSuvVx]+"),
    "node": re.compile(r"--(?!eval|print).*"),
    "bash": re.compile(r"--?(?:norc|noprofile|login)"),
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
    r"(?i)(?:.*[_-])?(?:TOKEN|PASSWORD|PASSPHRASE|SECRET|API_?KEY|ACCESS_KEY|AUTH_KEY)"
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
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_ASSIGNED = re.compile(r"(-{0,2}[A-Za-z_][\w.-]*)=(.+)", re.DOTALL)
_HEADER = re.compile(
    rf"([A-Za-z][\w-]*): ?(?:(?i:bearer|basic|token|bot|apikey) +)?({_CHARACTERS})"
)
_SCHEME = re.compile(rf"(?i:bearer|basic) ({_CHARACTERS})")
_PAIR = re.compile(rf"(?<![\w.-])([A-Za-z_][\w.-]*)=({_CHARACTERS})(?=[&;,\s\"']|$)")
_MEMBER = re.compile(
    rf"\"([\w.-]+)\"\s*:\s*\"(?:(?i:bearer|basic|token|bot) )?({_CHARACTERS})\""
)
_LOGIN = re.compile(rf"[\w.-]+:(?!\d+$)({_CHARACTERS})")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s\\'\"`$;|<>(){}]+")
_URL_PASSWORD = re.compile(r"://([^/?#@:]*):([^/?#@:]+)@(?=[\w\[])")
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
    """Whether it comes after the program that a launcher starts, so that it can't be that program."""
    may_assign: bool = False
    """Whether NAME=VALUE sets a variable here."""


def show_command(
    command: Sequence[str], environment: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    """The words and the variables to show, with the length and hash of each secret in its place."""
    arguments, code = _read_arguments(command)
    words = [_show(one.word, _find_in_argument(one)) for one in arguments]
    text = " ".join(command)
    variables = {
        name: _show(value, _find_in_variable(name, value, text, code))
        for name, value in environment.items()
    }
    return words, variables


def _show(value: str, spans: Iterator[Span]) -> str:
    shown, visible, last = [], [], 0
    for start, end in sorted(set(spans)):
        if start >= last:
            visible.append(value[last:start])
            shown += [visible[-1], hash_secret(value[start:end])]
            last = end
    visible.append(value[last:])
    if any(show_unseen(piece) != piece for piece in visible):
        return show_unseen(value)
    return "".join((*shown, value[last:]))


def _read_arguments(command: Sequence[str]) -> tuple[list[_Argument], bool]:
    """The words with the option before each; and whether some of them are code."""
    arguments: list[_Argument] = []
    program, option, is_waiting, is_code = "", "", True, False
    # Whether the script may only have been the value of an option: bash -o pipefail -c CODE.
    is_unsure = True
    for number, word in enumerate(command):
        name = _name_program(word)
        is_option = word.startswith("-") or (program == "cmd" and word.startswith("/"))
        is_place = number == 0 or is_waiting or option == "--" or program in _CONTAINERS
        if is_code:
            arguments.append(_Argument(word))
        elif number == 0 or (
            name in _PROGRAMS and (is_place or name not in _ALSO_WORDS)
        ):
            arguments.append(_Argument(word))
            program, option = name, ""
            is_waiting = is_unsure = name in _LAUNCHERS | _INTERPRETERS
            is_code = name in _RUN_TEXT
        elif is_unsure and _starts_code(program, word):
            arguments.append(_Argument(word))
            is_code = True
        elif is_option:
            arguments.append(_Argument(word, "", not is_waiting, may_assign=True))
            option = "" if "=" in word else word
        else:
            is_variable = bool(_ASSIGNED.fullmatch(word)) and (
                program in _SET_VARIABLES
                or (program in _CONTAINERS and option in ("-e", "--env"))
            )
            may_assign = not is_waiting or is_variable
            arguments.append(_Argument(word, option, not is_waiting, may_assign))
            is_value = bool(option) and option not in _FLAGS
            if program not in _UNKNOWN_OPTIONS and not named_secret(option):
                is_value = False
            is_command = word in _SUBCOMMANDS and program not in ("npx", "bunx")
            if _PROGRAM.match(word) and not (is_command or is_value or is_variable):
                is_waiting = False
                flags = _NO_CODE["python"] if program == "python" else None
                is_flag = option in _FLAGS or (flags and flags.fullmatch(option))
                is_unsure = is_unsure and bool(option) and not is_flag
            option = ""
    return arguments, is_code


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
    can_be_value = argument.is_hideable
    while argument.may_assign and (match := _ASSIGNED.fullmatch(word, start)):
        if "://" in match[1] or (start and _steers(option)):
            break
        option, start, can_be_value = match[1], match.start(2), True
    if start and not argument.is_hideable and not argument.may_assign:
        return
    rest = word[start:]
    for begin, end in _find_in_url(rest, argument.is_hideable):
        yield start + begin, start + end
    if not can_be_value:
        return
    if rest.startswith("{") and _is_json(rest):
        for member in _MEMBER.finditer(rest):
            yield from _shift(_find_group(member, 1, 2), start)
    if _steers(option):
        return
    yield from _shift(_find_token(rest, option), start)
    if option == "-H" or "header" in option.lower():
        if sent := _AUTHORIZATION.fullmatch(rest):
            yield from _shift(iter([sent.span(1)]), start)
        elif header := _HEADER.fullmatch(rest):
            yield from _shift(_find_group(header, 1, 2), start)
    if option in ("-u", "--user") and (login := _LOGIN.fullmatch(rest)):
        yield from _shift(iter([login.span(1)]), start)


def _find_in_variable(
    name: str, value: str, command: str, has_code: bool
) -> Iterator[Span]:
    yield from _find_in_url(value, not _STEERING_VARIABLE.fullmatch(name))
    if (header := _AUTHORIZATION.fullmatch(value)) and not has_code:
        yield header.span(1)
    if (
        _steers_variable(name)
        or len(value) > _LONGEST
        or _is_read(name, command, has_code)
    ):
        return
    if has_code and not _is_token(value):
        return
    if named_secret(name):
        words = value.split()
        if words and not (len(words) == 1 and _is_location(words[0])):
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
    if _is_token(value) and "/" not in value and find_spans(value, name):
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


def _find_in_url(value: str, with_query: bool) -> Iterator[Span]:
    if not _URL.fullmatch(value):
        return
    if password := _URL_PASSWORD.search(value):
        yield password.span(2)
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


def _is_location(value: str) -> bool:
    """Whether a value may be a path, a file, an address or a version of a package."""
    if is_issued(value):
        return False
    try:
        return bool(_LOCATION.fullmatch(value)) or Path(value).exists()
    except (OSError, ValueError):
        return False


def _is_read(name: str, command: str, has_code: bool) -> bool:
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
    if not has_code:
        return bool(re.search(rf"(?:\$\{{?|%|!|env:){re.escape(name)}(?!\w)", rest))
    rest = re.sub(rf"(?:-e|--env)[= ]{re.escape(name)}(?=[\s\"']|$)", " ", rest)
    return name in rest or bool(_READS_ALL.search(rest))


def _is_json(value: str) -> bool:
    try:
        return isinstance(json.loads(value), dict)
    except (ValueError, RecursionError):
        return False
