"""A secret is told by the name of its key or by its entropy, never because it is an argument."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbank.system.secrets import (
    find_secrets,
    mask_command,
    mask_secrets,
    named_secret,
)


def read(text):
    """A name and a value, of NAME=VALUE."""
    return tuple(text.split("=", 1))


_PLAIN = """
--local-timezone=Europe/Berlin =America/Argentina/Buenos_Aires TZ=Asia/Ho_Chi_Minh
=Etc/GMT+5 --db-path=/home/me/mcp/shop.db =~/projects/very-long-folder-name-2024/src
OPENSSL_CONF=evil.cnf LUA_INIT=@/tmp/x.lua R_PROFILE_USER=./evil.R
KUBECONFIG=/tmp/kube AWS_CONFIG_FILE=/tmp/aws RUSTC_WRAPPER=/tmp/w
HTTPS_PROXY=http://proxy.internal.example.com:3128 SSL_CERT_FILE=/tmp/ca.pem
GIT_CONFIG_KEY_0=core.fsmonitor GIT_CONFIG_VALUE_0=/tmp/evil.sh
GIT_ASKPASS=/tmp/ask.sh SSH_AUTH_SOCK=/tmp/ssh-abc/agent.1
GOOGLE_APPLICATION_CREDENTIALS=/home/me/sa.json
=@modelcontextprotocol/server-filesystem =mcp-server-git@2025.1.14
=@modelcontextprotocol/server-github@0.6.2 --model=claude-3-5-sonnet-20241022
MODEL=text-embedding-3-large MODEL=Qwen/Qwen2.5-72B-Instruct-AWQ
MODEL=sentence-transformers/all-MiniLM-L6-v2 MODEL=meta-llama/Llama-3.3-70B-Instruct
MODEL=anthropic.claude-3-haiku-20240307-v1:0 MODEL=gpt-4o-mini-2024-07-18
LANG=de_DE.UTF-8 LC_ALL=en_US.UTF-8 EMAIL=jane.doe+mcp@example.org
DB_HOST=db-prod-eu-west-1.cluster-ro.rds.amazonaws.com
PROJECT_ID=3f2b8c1e-9a4d-4e6f-8b7a-1c2d3e4f5a6b AWS_ACCOUNT_ID=123456789012 PORT=3000
MAX_TOKENS=4096 TOKENIZERS_PARALLELISM=false LOG_LEVEL=debug AUTH_MODE=oauth
USE_AUTH=true GIT_AUTHOR_NAME=Jane
=https://docs.example.com/api/v2/reference?lang=en&page=2
=postgresql://localhost:5432/shop =ghcr.io/github/github-mcp-server:v0.5.1
=node@sha256:0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0
=git+https://github.com/me/server@0f1e2d3c4b5a697887960f1e2d3c4b5a69788796
=ssh://git@github.com/me/x.git =--transport=streamable-http -e=DEBUG=1
=--max-old-space-size=4096 PYTHONPATH=/opt/lib/python3.11/site-packages
CLASSPATH=/a/b.jar:/c/d-1.2.3.jar JAVA_TOOL_OPTIONS=-javaagent:/tmp/a.jar
PIP_INDEX_URL=https://pypi.org/simple KEYCLOAK_URL=https://sso.example.com/realms/main
TOKEN_FILE=/run/secrets/token =x86_64-unknown-linux-gnu =2026-11-27T13:07:30Z
=application/vnd.github.v3+json =getUserAccountBalanceForPeriod
=com.fasterxml.jackson.core.JsonProcessingException
=gaussian_kernel_density_estimation =Straßenverkehrsordnung
=krzysztof.szczepański@firma.pl TZ=Pacific/Kiritimati
=--allowed-directories=/srv/a,/srv/b =smithery@latest
=nlohmann_json-3.11.3-linux-amd64 REGION=europe-west3 --sort-key=name
PARTITION_KEY=customer_id CLIENT_ID=my-client COMPASS=north KEYMAP=us PWD=/home/x
http_proxy=http://10.0.0.7:3128/ =--user --user=1000:1000 GIT_COMMITTER_EMAIL=a@b.c
=qwen2.5-coder:32b-instruct-q4_K_M =kubernetes-sigs/cluster-api-provider-aws =stdio
=mcp-server-sqlite =192.168.100.200 =2001:db8:85a3::8a2e:370:7334
HF_HUB_ENABLE_HF_TRANSFER=1 =/nix/store/../x =postgres://app@db/shop
VERSION=v1.2.3-beta.4+build.20241127 =zod-to-json-schema --seed=42
RANDOM_SEED=20240131 --pin=7 SALT=0.5 =rhythms/crypt/lynx-nymph
=deepseek-ai/DeepSeek-R1-Distill-Qwen-32B =nomic-ai/nomic-embed-text-v1.5
=NVIDIA-Nemotron-Nano-9B-v2 =mixedbread-ai/mxbai-embed-large-v1 =BAAI/bge-m3
=llama3.1:8b-instruct-fp16 =pypi-attestations BUCKET=my-company-artifacts-eu-central-1
CLUSTER=arn:aws:eks:eu-west-1:123456789012:cluster/prod
"""
PLAIN = [
    *map(read, _PLAIN.split()),
    ("GOFLAGS", "-toolexec=/tmp/evil -mod=mod"),
    ("EDITOR", "vim -c ':!sh'"),
    ("PAGER", "less -R"),
    ("GIT_SSH_COMMAND", "ssh -i /tmp/k -o StrictHostKeyChecking=no"),
    ("AUTHOR", "Jane Doe"),
    ("NODE_OPTIONS", "--require ./evil.js"),
    ("", "C:\\Users\\Jane\\AppData\\Roaming\\npm"),
    ("", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko)"),
    ("", "SELECT * FROM customers WHERE id=3"),
    ("MONKEY", "yes please"),
    ("", "Content-Type: application/json"),
]

_SECRET = """
TOKEN=s3c4 --pin=4711 PASSWORD_SALT=abcd API_KEY=abc GITHUB_PERSONAL_ACCESS_TOKEN=x
=ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8 =sk-proj-Ab12Cd34Ef56Gh78
=sk-ant-api03-Xy9z8W7v6U5z8W7v6U5z8W7v6U5z8W7v6U5 X=AKIAIOSFODNN7EXAMPLE
=xoxb-123456789012-abcdefABCDEF =glpat-Ab1cD2eF3gH4iJ5kL6 =hf_AbCdEfGhIjKlMnOpQrSt
=eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk
=AIzaSyD-1a2B3c4D5e6F7g8H9i0JkLmNoPqRsTu =--api-key=sesame --api-key=sesame
--password=open -e=API_KEY=value --env=DB_PASSWORD=hunter2 =--env=SLACK_TOKEN=abcd
DATABASE_URL=postgresql://me:hunter2@db.example.com:5432/x =redis://:pa55@host:6379/0
=https://0a1b2c3d4e5f60718293a4b5c6d7e8f9@o1.ingest.sentry.io/1
=https://x.example/?api_key=open&x=1 =https://x.example/mcp?token=open
--config={"apiKey":"open","x":1} PGPASSWORD=hunter MYSQL_PWD=x1
AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY
ANY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY ANY=5f4dcc3b5aa765d61d8327deb882cf99
ANY=JBSWY3DPEHPK3PXP ANY=3f2b8c1e-9a4d-4e6f-8b7a-1c2d3e4f5a6b
ANY=dGhpcyBpcyBhIHNlY3JldCBrZXkhIQ== -u=me:hunter2 DB_PASS=open apiKey=open
X-Auth-Token=open Cookie=sid=abc =123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1
SLACK=https://hooks.slack.com/services/T0A1B2C3D/B0A1B2C3D/aBcDeFgHiJkLmNoPqRsTuVwX
=https://oauth2:open@gitlab.com/x.git =https://tok3n@github.com/x.git
NPM_TOKEN=npm_abc STRIPE=sk_live_4eC39HqLyjWDarjtT1
=mongodb+srv://me:p%40ss@c.example.net/db
"""
SECRET = [
    *map(read, _SECRET.split()),
    ("--header", "Authorization: Bearer abcdefgh"),
    ("-H", "X-Api-Key: open sesame"),
    ("DSN", "Server=h;User Id=me;Password=abc;"),
    ("", "host=localhost password=abc user=me"),
    ("", "sh -c 'server --token open'"),
    ("Authorization", "Bearer abc"),
    ("", "Basic c2VjcmV0OnBhc3M="),
    ("PRIVATE_KEY", "-----BEGIN RSA PRIVATE KEY-----\nabc"),
    ("SSH_KEY", "-----BEGIN OPENSSH PRIVATE KEY-----\nx"),
    ("", "Bearer abcd.efgh"),
]


@pytest.mark.parametrize(("name", "value"), PLAIN)
def test_what_people_write_is_no_secret(name, value):
    assert find_secrets(value, name) == []


@pytest.mark.parametrize(("name", "value"), SECRET)
def test_a_secret_is_recognised(name, value):
    found = find_secrets(value, name)
    assert found
    masked = mask_secrets(value, name)
    assert not any(secret in masked for secret in found)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (
            "postgresql://me:hunter2@db.example.com/x",
            "postgresql://me:***@db.example.com/x",
        ),
        ("--header=Authorization: Bearer open", "--header=Authorization: Bearer ***"),
        ('{"apiKey": "open", "city": "Oslo"}', '{"apiKey": "***", "city": "Oslo"}'),
        (
            "https://x.example/?city=Oslo&token=open",
            "https://x.example/?city=Oslo&token=***",
        ),
        ("--env=DB_PASSWORD=open", "--env=DB_PASSWORD=***"),
        ("Server=h;Password=open;Timeout=3", "Server=h;Password=***;Timeout=3"),
    ],
)
def test_only_the_secret_part_of_a_value_is_hidden(value, shown):
    assert mask_secrets(value) == shown


def test_an_option_says_what_its_value_is():
    command = ["npx", "-y", "shop", "--zone", "Asia/Tokyo", "--api-key", "open", "x"]
    shown = ["npx", "-y", "shop", "--zone", "Asia/Tokyo", "--api-key", "***", "x"]
    assert mask_command(command) == shown


NAMES = "PGPASSWORD apiKey X-Api-Key --auth-token GH_PAT SESSION_COOKIE TOKEN_2 DBPASS"
OTHERS = "AUTHOR MONKEY TOKENIZERS_PARALLELISM SSH_ASKPASS TOKEN_FILE XDG_SESSION_TYPE"
OTHERS += " COMPASS GIT_CONFIG_KEY_0 PATH"


@pytest.mark.parametrize("name", ["", *NAMES.split(), *OTHERS.split()])
def test_names_of_secrets(name):
    assert named_secret(name) == (name in NAMES.split())


def random_text(alphabet, length):
    return st.builds(
        lambda rng: "".join(rng.choices(alphabet, k=length)),
        st.randoms(use_true_random=False),
    )


TOKENS = st.one_of(
    random_text(string.hexdigits[:16], 32),
    random_text(string.hexdigits[:16], 64),
    random_text(string.ascii_letters + string.digits, 32),
    st.uuids().map(str),
)


@given(TOKENS)
def test_a_random_token_is_hidden_whatever_it_is_called(token):
    # Of 32 characters drawn at random; those that hypothesis makes of one character alone are none.
    if len(set(token)) > 8:
        assert token not in mask_secrets(token, "ANY")
        assert token not in mask_secrets(f"--x={token}")
        assert token not in mask_secrets(f"https://x.example/{token}/mcp")


@given(st.text(), st.sampled_from(["", "TOKEN", "ANY", "--header"]))
def test_what_is_not_hidden_stays_as_it_is(value, name):
    found = find_secrets(value, name)
    marked = mask_secrets(value, name, lambda secret: secret)
    assert marked == value
    assert all(secret in value for secret in found)


PIECES = "a= ://a: -eyJ -sk- a. 'a':' git@ /a1"


@pytest.mark.parametrize("piece", [*PIECES.split(), "-----BEGIN ", "bearer ", "--a "])
def test_a_long_value_is_looked_through_all_the_same(piece):
    value = piece * (100_000 // len(piece))
    assert mask_secrets(value, "", lambda secret: secret) == value
