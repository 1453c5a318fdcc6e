"""TLS before a real broker: what pika's URLs can say works, and certificates are checked."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

from controlmq.cli.main import main
from tests.testbed import Broker


def new_certificate(folder: Path) -> Path:
    """A certificate for localhost that nobody else vouches for, in one file with its key."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    with certificate.open("a") as both:
        both.write(key.read_text())
    return certificate


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the broker shows."""
    return new_certificate(tmp_path_factory.mktemp("tls"))


def options(certificate: Path, **others: object) -> str:
    """The part of a URL that has this certificate believed."""
    return "ssl_options=" + quote(repr({"cafile": str(certificate), **others}))


@contextmanager
def tls_before(broker: Broker, certificate: Path) -> Iterator[int]:
    """A port on localhost that speaks TLS and passes on to the broker what it decrypts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
        sink.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_broker, to_broker = await asyncio.open_connection(*broker.address)
        await asyncio.gather(copy(reader, to_broker), copy(from_broker, writer))

    async def run() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
        ports.append(server.sockets[0].getsockname()[1])
        started.set()
        await asyncio.to_thread(ended.wait)
        server.close()

    ports: list[int] = []
    started, ended = threading.Event(), threading.Event()
    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    try:
        assert started.wait(60)
        yield ports[0]
    finally:
        ended.set()
        thread.join()


def test_a_certificate_that_nobody_vouches_for_is_refused(
    broker: Broker,
    queue_name: str,
    certificate: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["load", "--queue", queue_name, "--rate", "1000", "--count", "1"]
    another = new_certificate(tmp_path)
    given = ["", options(another), options(another, protocol=int(ssl.PROTOCOL_TLS))]
    with tls_before(broker, certificate) as port:
        for each in given:
            assert main([*words, "--url", f"amqps://guest:guest@localhost:{port}/%2F?{each}"]) == 2
            said = capsys.readouterr().err
            assert "cannot connect to amqps://localhost" in said
            assert "certificate verify failed" in said


def test_options_of_tls_stand_in_the_url_as_pika_takes_them(
    broker: Broker, queue_name: str, certificate: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with tls_before(broker, certificate) as port:
        url = f"amqps://guest:guest@localhost:{port}/%2F?{options(certificate)}"
        words = ["load", "--queue", queue_name, "--rate", "1000", "--count", "50", "--json"]
        assert main([*words, "--url", url]) == 0
        assert json.loads(capsys.readouterr().out)["published"] == 50
        words = ["run", "--queue", queue_name, "--prefetch", "5", "--work", "0", "--json"]
        assert main([*words, "--url", url, "--interval", "0.2", "--samples", "3"]) == 0
    assert "guest:guest" not in capsys.readouterr().err
