"""Parses the text of one setting into a value: limits, addresses, labels, files.

Each function takes the given text and returns a value, or raises `ValueError` with a sentence that says what is
expected. The sentence does not name the setting: only the loader knows whether a flag, a variable or a file gave it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, SecretStr

from corral.app.redaction import redact_text
from corral.domain.duration import parse_duration_s
from corral.domain.errors import InvalidRequest
from corral.policy.sealing_keys import SealingKey, parse_sealing_keys

_CREDENTIALS_EXAMPLE = '{"registry.example:5000": "user:password"}'
_REGISTRY_HOST = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?", re.ASCII)
_SIZE = re.compile(r"(?P<number>[0-9]{1,15}(?:\.[0-9]{1,9})?)\s*(?P<unit>[a-zA-Z]{0,3})", re.ASCII)
_UNIT_BYTES = {"": 1, "b": 1}
_UNIT_BYTES |= {f"{letter}b": 1000**power for power, letter in enumerate("kmgt", start=1)}
_UNIT_BYTES |= {f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", start=1)}
SIZE_BYTES_MAX = 2**60
NAME_LENGTH_MAX = 255
# More than the most keys with a comment for each.
KEY_FILE_BYTES_MAX = 16 * 1024


def parse_limit_s(value: object) -> float:
    """Parse a duration, or 0 for no limit, into seconds."""
    return 0.0 if str(value).strip() in ("0", "0.0", "0s") else parse_duration_s(value)


def parse_names(text: str) -> tuple[str, ...]:
    """Parse `one,two` into names: trimmed, without empty ones, each once."""
    from corral.domain.model import PREFETCH_MAX

    names = tuple(dict.fromkeys(filter(None, (name.strip() for name in text.split(",")))))
    if len(names) > PREFETCH_MAX:
        raise ValueError(f"has {len(names)} names: at most {PREFETCH_MAX} are allowed")
    for name in names:
        if len(name) > NAME_LENGTH_MAX or not name.isprintable():
            raise ValueError(f"has an invalid name: a name has 1 to {NAME_LENGTH_MAX} printable characters")
    return names


def check_names(text: str) -> str:
    return ",".join(parse_names(text))


def parse_labels(value: object) -> dict[str, str]:
    """Parse `site=attic,gpu=small`, or a table of the same, into labels."""
    if isinstance(value, Mapping):
        return _check_labels({str(key): str(text) for key, text in value.items()})
    if not isinstance(value, str):
        raise ValueError("is not a list of labels: write key=value,key2=value2")  # noqa: TRY004 - pydantic collects ValueError only
    labels: dict[str, str] = {}
    for part in filter(None, (piece.strip() for piece in value.split(","))):
        key, equals, text = part.partition("=")
        if not equals or not key.strip():
            raise ValueError(f"has a label without a key or without '=' ({part!r}): write key=value,key2=value2")
        if key.strip() in labels:
            raise ValueError(f"names the label {key.strip()!r} twice")
        labels[key.strip()] = text.strip()
    return _check_labels(labels)


def _check_labels(labels: dict[str, str]) -> dict[str, str]:
    from corral.policy.labels import check_labels

    try:
        check_labels(labels)
    except InvalidRequest as error:
        raise ValueError(f"has a label that is not allowed: {error.message} {error.hint}") from error
    return labels


def check_vram_budget(value: str) -> str:
    from corral.policy.budget import parse_budget

    try:
        parse_budget(value)
    except InvalidRequest as error:
        raise ValueError(f"is wrong: {error.message} {error.hint}") from error
    return value


def parse_size_bytes(value: object) -> int:
    """Parse `1GiB`, `500MB` or a plain number into bytes."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError("is not a size: write 1GiB, 500MB or a number of bytes")  # noqa: TRY004 - pydantic collects ValueError only
    match = _SIZE.fullmatch(str(value).strip())
    unit = match["unit"].lower() if match else None
    if match is None or unit not in _UNIT_BYTES:
        raise ValueError(f"is not a size ({value!r}): write 1GiB, 500MB or a number of bytes")
    size_bytes = int(float(match["number"]) * _UNIT_BYTES[unit])
    if size_bytes > SIZE_BYTES_MAX:
        raise ValueError(f"is larger than any disk ({value!r})")
    return size_bytes


def check_database_url(value: SecretStr) -> SecretStr:
    scheme = urlsplit(value.get_secret_value()).scheme.lower()
    if scheme == "postgresql":
        return value
    if scheme == "postgres" or scheme.startswith("postgresql+"):
        raise ValueError(f"starts with {scheme}://: write postgresql://user:password@host:5432/database")
    if "sqlite" in scheme or "mysql" in scheme or "mariadb" in scheme:
        raise ValueError(
            f"names a {scheme.split('+')[0]} database, but the registry needs PostgreSQL 15 or newer: "
            "its leases, row locks and change notices need PostgreSQL"
        )
    raise ValueError("is not a PostgreSQL address: write postgresql://user:password@host:5432/database")


def check_nats_url(value: str) -> str:
    for part in value.split(","):
        parsed = urlsplit(part.strip())
        if parsed.scheme not in {"nats", "tls", "ws", "wss"} or not parsed.netloc:
            raise ValueError("is not a NATS address: write nats://host:4222 (separate several with commas)")
    return value


def strip_userinfo(url: str) -> str:
    """Return the address without user and password: workers must not get the frontend's credentials."""
    parts = [urlsplit(part.strip()) for part in url.split(",")]
    return ",".join(part._replace(netloc=part.netloc.rpartition("@")[2]).geturl() for part in parts)


def check_http_url(value: str) -> str:
    parsed = urlsplit(value.strip())
    if parsed.scheme not in {"http", "https"} or not parsed.hostname or "," in value:
        raise ValueError(f"is not an address of a frontend ({redact_text(value)!r}): write http://host:8080")
    url = value.strip().rstrip("/")
    if url.endswith("/v1"):
        # This is the base address for OpenAI clients; all paths of Corral would be looked up below it.
        raise ValueError(f"is the base address for OpenAI clients; leave out /v1 here: {url.removesuffix('/v1')}")
    return url


def check_http_urls(value: str) -> str:
    """Check one or several addresses; a worker tries the next one if the first does not respond."""
    return ",".join(check_http_url(part) for part in value.split(","))


def check_advertised_address(value: str) -> str:
    """Check an address of the form `host`, `host:port` or `[ipv6]:port`; a scheme or a path is refused."""
    parsed = urlsplit(f"//{value.strip()}")
    try:
        has_valid_port = parsed.port is None or parsed.port > 0
    except ValueError:
        has_valid_port = False
    if "/" in value or "@" in value or not parsed.hostname or not has_valid_port:
        raise ValueError(f"is not an address of this machine ({redact_text(value)!r}): write host:port")
    return value.strip()


def is_web_address(value: object) -> bool:
    try:
        parsed = urlsplit(value) if isinstance(value, str) else None
    except ValueError:
        return False
    return parsed is not None and parsed.scheme in {"http", "https"} and bool(parsed.hostname)


def parse_registry_credentials(text: str) -> dict[str, str]:
    """Parse a JSON object of registry host to user:password. Errors never quote the text, because it holds secrets."""
    try:
        value = json.loads(text)
    except ValueError:
        # Raised without its cause, which would quote the text.
        raise ValueError(f"is not JSON: write {_CREDENTIALS_EXAMPLE}") from None
    if not isinstance(value, dict) or not all(_is_credential(host, pair) for host, pair in value.items()):
        raise ValueError(f"is not a table of hosts, each with user:password: write {_CREDENTIALS_EXAMPLE}")
    return {host.lower(): pair for host, pair in value.items()}


def _is_credential(host: str, pair: object) -> bool:
    return _REGISTRY_HOST.fullmatch(host) is not None and isinstance(pair, str) and bool(pair.partition(":")[2])


def check_registry_credentials(value: SecretStr) -> SecretStr:
    parse_registry_credentials(value.get_secret_value())
    return value


def check_web_address(value: str) -> str:
    if not is_web_address(value.strip()):
        raise ValueError(f"is not an address ({redact_text(value)!r}): write https://host")
    return value.strip().rstrip("/")


# An origin as browsers send it: no path, no slash at the end.
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(?:\[[0-9a-f:]+\]|[a-z0-9._-]+)(?::[0-9]{1,5})?", re.ASCII)


def parse_folders(text: str) -> tuple[Path, ...]:
    """Parse folders that are separated by commas."""
    return tuple(Path(part.strip()).expanduser() for part in text.split(",") if part.strip())


def parse_origins(text: str) -> tuple[str, ...]:
    """Parse origins of web pages that are separated by commas."""
    return tuple(part.strip().lower() for part in text.split(",") if part.strip())


def check_origins(value: str) -> str:
    wrong = [origin for origin in parse_origins(value) if origin != "*" and _ORIGIN.fullmatch(origin) is None]
    if wrong:
        raise ValueError(f"has {wrong[0]!r}, which is not an origin: write https://host, http://host:port or *")
    return value


def check_folders(value: str) -> str:
    relative = [str(folder) for folder in parse_folders(value) if not folder.is_absolute()]
    if relative:
        raise ValueError(f"must contain absolute paths: {relative[0]!r} does not begin with /")
    return value


def parse_networks(text: str) -> tuple[IPv4Network | IPv6Network, ...]:
    """Parse addresses and networks that are separated by commas."""
    return tuple(ip_network(part.strip(), strict=False) for part in text.split(",") if part.strip())


def check_networks(value: str) -> str:
    try:
        parse_networks(value)
    except ValueError as error:
        raise ValueError(f"must be addresses or networks separated by commas, such as 10.0.0.0/8: {error}") from None
    return value


def check_readable_file(value: Path) -> Path:
    path = value.expanduser()
    if not path.is_file():
        raise ValueError(f"names a file that does not exist: {path}")
    try:
        with path.open("rb"):
            return path
    except OSError as error:
        raise ValueError(f"names a file that cannot be read: {path} ({error.strerror})") from error


def read_sealing_keys(path: Path) -> tuple[SealingKey, ...]:
    """Return the keys of a key file; raise `ValueError` with what is wrong, without repeating any of its content."""
    try:
        with path.open("rb") as file:
            content = file.read(KEY_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ValueError(f"names a file that cannot be read: {path} ({error.strerror})") from error
    if len(content) > KEY_FILE_BYTES_MAX:
        raise ValueError(f"names {path}, which is too large for a key file")
    try:
        return parse_sealing_keys(content.decode())
    except UnicodeDecodeError:
        raise ValueError(f"names {path}, which is not text") from None
    except ValueError as error:
        raise ValueError(f"names {path}, which {error}") from None


def check_secrets_key_file(value: Path) -> Path:
    path = check_readable_file(value)
    read_sealing_keys(path)
    return path


def make_seed_check(prefix: str, what: str) -> AfterValidator:
    def check(value: SecretStr) -> SecretStr:
        if not value.get_secret_value().strip().startswith(prefix):
            raise ValueError(f"is not the seed of {what}: such a seed starts with {prefix}")
        return SecretStr(value.get_secret_value().strip())

    return AfterValidator(check)


def _to_lower_case(value: object) -> object:
    return value.strip().lower() if isinstance(value, str) else value


def check_storage(value: str) -> str:
    from corral.adapters.storage import EXAMPLE, parse_address

    try:
        parse_address(value)
    except InvalidRequest as error:
        raise ValueError(f"is not the address of a storage: write {EXAMPLE}") from error
    return value


def check_storage_key(value: SecretStr) -> SecretStr:
    from corral.adapters.storage import parse_key

    try:
        parse_key(value.get_secret_value())
    except InvalidRequest as error:
        raise ValueError("is not the key of a storage: write name:secret") from error
    return value


Duration = Annotated[float, BeforeValidator(parse_duration_s)]
DurationOrZero = Annotated[float, BeforeValidator(parse_limit_s)]
SizeBytes = Annotated[int, BeforeValidator(parse_size_bytes)]
Labels = Annotated[dict[str, str], BeforeValidator(parse_labels)]
Names = Annotated[str, AfterValidator(check_names)]
DatabaseUrl = Annotated[SecretStr, AfterValidator(check_database_url)]
NatsUrl = Annotated[str, AfterValidator(check_nats_url)]
FrontendUrl = Annotated[str, AfterValidator(check_http_url)]
FrontendUrls = Annotated[str, AfterValidator(check_http_urls)]
AdvertisedAddress = Annotated[str, AfterValidator(check_advertised_address)]
VramBudget = Annotated[str, AfterValidator(check_vram_budget)]
ReadableFile = Annotated[Path, AfterValidator(check_readable_file)]
SecretsKeyFile = Annotated[Path, AfterValidator(check_secrets_key_file)]
Directory = Annotated[Path, AfterValidator(Path.expanduser)]
AccountSeed = Annotated[SecretStr, make_seed_check("SA", "a NATS account")]
OperatorSeed = Annotated[SecretStr, make_seed_check("SO", "a NATS operator")]
WebAddress = Annotated[str, AfterValidator(check_web_address)]
StorageAddress = Annotated[str, AfterValidator(check_storage)]
StorageKey = Annotated[SecretStr, AfterValidator(check_storage_key)]
Networks = Annotated[str, AfterValidator(check_networks)]
Folders = Annotated[str, AfterValidator(check_folders)]
Origins = Annotated[str, AfterValidator(check_origins)]
RegistryCredentials = Annotated[SecretStr, AfterValidator(check_registry_credentials)]
AnyCase = BeforeValidator(_to_lower_case)
