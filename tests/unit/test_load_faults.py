"""Load runs that go wrong: what the server, the machine or the caller does to them."""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import psutil
import pytest

from tests.unit.load_runs import load, scratch  # noqa: F401 - a fixture
from tutorial_lib.errors import LoadError
from tutorial_lib.load import EndpointTarget, Every, GrpcTarget, KnownServer, Poisson, Users, run_load
from tutorial_lib.paths import CHECKOUT


def exactly(url, count, *, every_s, **options):
    """So many requests, also where the generator is late at the end."""
    return load(url, arrivals=Every(every_s), duration_s=60, limit=count, warm_up_s=0, **options)


@contextmanager
def answering(respond):
    """A server of the standard library; `respond(handler)` writes the answer. Gives its URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            respond(self)

        def log_message(self, *_): ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/predict"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def raw(serve):
    """A TCP server; `serve(connection)` in a thread for each. Gives its URL."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:

        def accept():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(5)


def plain(handler, status=200, body=b"{}", **headers):
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(body)), **headers}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


def test_errors_are_counted_apart_with_their_reason():
    numbers = iter(range(1000))

    def every_third(handler):
        if next(numbers) % 3 == 2:
            plain(handler, 503, b'{"detail": "too\n many"}')
        else:
            plain(handler)

    with answering(every_third) as url:
        result = exactly(url, 30, every_s=0.05)
    assert (result.requests, result.answered, result.errors, result.timeouts, result.lost) == (30, 20, 10, 0, 0)
    assert result.error_messages == {'HTTP 503: {"detail": "too many"}': 10}
    assert len(result.latencies_ms) == 20
    assert "most frequent failure: HTTP 503" in str(result)


def test_chunked_answers_and_closed_connections_are_answers():
    def chunked(handler):
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"2\r\n{}\r\n0\r\n\r\n")

    def closing(handler):
        plain(handler, **{"Connection": "close"})
        handler.close_connection = True

    for respond in (chunked, closing):
        with answering(respond) as url:
            result = exactly(url, 25, every_s=0.02)
        assert result.answered == 25, result.error_messages


def test_a_connection_closed_for_being_idle_is_no_failure():
    """The server answers once and closes without a word, as one whose keep-alive time is over."""

    def once(connection):
        connection.recv(65_536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        connection.recv(65_536)  # the next request is on its way when it closes
        connection.close()

    with raw(once) as url:
        result = exactly(url, 20, every_s=0.05, connections=1)
    # every second request meets a closed connection; one of them a late one, on a machine that is busy with others
    assert result.requests == 20 and result.answered > 15, result.error_messages


def test_an_endpoint_that_never_answers_is_time_outs_and_ends():
    held = []  # a socket that nobody holds would be closed
    with raw(held.append) as url:
        result = exactly(url, 10, every_s=0.1, timeout_s=0.5)
        closed = load(url, concurrency=3, duration_s=0.4, timeout_s=0.3)
    assert (result.timeouts, result.answered, result.errors, result.lost) == (10, 0, 0, 0)
    assert result.error_messages == {"no answer within 0.5 s": 10}
    assert result.samples.latency_ms.min() >= 500
    assert math.isnan(result.p95_ms) and "no answers" in str(result)
    assert 3 <= closed.timeouts <= 6 and closed.lost == 0


def test_users_who_wait_in_vain_since_the_warm_up_are_counted():
    """They all send in their first pause, which is warm-up, and never again: the window is empty."""
    held = []
    with raw(held.append) as url:
        result = load(url, users=Users(50, think_s=0.2), duration_s=0.6, timeout_s=1)
    assert result.requests == result.answered == 0 and not result.complete
    assert result.timeouts == result.failed == 50 and "50 time-outs" in str(result)


def test_what_does_not_speak_http_is_an_error():
    def garbage(connection):
        connection.recv(1)
        connection.sendall(b"SSH-2.0-OpenSSH\r\n")

    with raw(garbage) as url:
        result = exactly(url, 4, every_s=0.1)
    assert result.errors == 4 and "not an HTTP response" in next(iter(result.error_messages))


def test_grpc_to_what_does_not_speak_it_is_refused():
    def http(connection):
        connection.recv(1)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with raw(http) as url:
        target = GrpcTarget(url[7:].strip("/"), "m", {"x": [1.0]})
        with pytest.raises(LoadError, match="what answers there does not speak gRPC"):
            run_load(target, concurrency=1, duration_s=1, progress=False)


def test_nobody_there_is_said_at_once():
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    for target in (
        EndpointTarget(f"http://127.0.0.1:{port}/"),
        GrpcTarget(f"127.0.0.1:{port}", "m", {"x": [1.0]}),
    ):
        with pytest.raises(LoadError, match=f"127.0.0.1:{port}: .*Start the server"):
            run_load(target, concurrency=1, progress=False)


def test_a_server_that_goes_is_counted_and_the_run_ends_with_what_it_has():
    with KnownServer(0.001) as server:
        once_asked(server, 40, server.stop)
        result = load(server.url, arrivals=Poisson(100), duration_s=60, give_up_s=1.0)
    assert result.samples.count(0) > 30 and result.errors > 30 and result.lost == 0
    assert "the server has been gone for" in result.ended_early
    assert result.duration_s < 20
    assert len(result.samples) == result.samples.count(0) + result.samples.count(1) + result.unsent
    assert result.samples.count(3) == result.unsent > 5000


def test_users_of_a_server_that_goes_do_not_storm_it():
    with KnownServer(0.001) as server:
        once_asked(server, 40, server.stop)
        result = load(server.url, concurrency=4, duration_s=2.5, give_up_s=None)
    assert not result.ended_early and result.samples.count(0) >= 36  # the last four may be on their way
    # pauses of 20, 40, … ms up to 1 s after each failure: about 7 in 2 s, not thousands
    assert 4 <= result.errors <= 4 * 12


def test_what_the_generator_does_not_get_to_is_unsent_and_said():
    """Its process is held for longer than the run: whatever it does then, the rest cannot be sent in time."""

    def hold():
        (worker,) = workers(psutil.Process())
        worker.suspend()
        threading.Event().wait(2.5)
        worker.resume()

    with KnownServer(0.001) as server:
        once_asked(server, 5, hold)
        result = load(server.url, arrivals=Every(0.02), duration_s=2, warm_up_s=0)
    assert 0 < result.unsent <= 95 and result.answered + result.unsent == len(result.samples) == 100
    assert result.generator.limited
    assert f"the generator, not the server, is the limit: {result.unsent} of 100 requests were not sent" in str(result)


def test_more_requests_than_connections_wait_and_it_is_said():
    with KnownServer(0.1, servers=10) as server:
        result = exactly(server.url, 50, every_s=0.01, connections=2)
    assert result.answered == 50
    assert "waited because all connections were in use" in result.generator.note
    # two at a time, 0.1 s each: the last of 50 is sent at 0.49 s and answered after 2.5 s
    assert result.max_ms > 2500 - 490 - 5


def test_a_limit_ends_the_run():
    with KnownServer(0.001) as server:
        opened = load(server.url, arrivals=Every(0.01), duration_s=30, limit=20)
        closed = load(server.url, concurrency=3, duration_s=30, limit=20)
    assert len(opened.samples) == opened.samples.count(0) == 20
    assert len(closed.samples) == closed.samples.count(0) == 20
    assert closed.duration_s < 5 and not closed.interrupted


def test_a_second_run_at_the_same_time_is_refused():
    with KnownServer(0.01) as server:
        refused = []

        def second(*_):
            try:
                load(server.url, concurrency=1, duration_s=0.1)
            except LoadError as error:
                refused.append(str(error))
            finally:
                server.stop()  # which ends the first, however long the second took to get there

        once_asked(server, 10, second)
        first = load(server.url, concurrency=1, duration_s=120, give_up_s=0.1)
    assert "found another one going on in this workspace (process " in refused[0]
    assert first.answered >= 10 and first.ended_early
    with KnownServer(0.01) as server:  # and afterwards it is free again
        load(server.url, concurrency=1, duration_s=0.1)


def once_asked(server, count, act):
    """Call `act` in a thread as soon as the server has answered `count` requests."""

    def wait():
        wait_for_requests(server, count)
        act()

    threading.Thread(target=wait).start()


SCRIPT = """
import json, sys
from tutorial_lib.load import EndpointTarget, Every, run_load
print("ready", flush=True)
result = run_load(EndpointTarget(sys.argv[1]), arrivals=Every(0.02), duration_s=60, warm_up_s=0, progress=False)
print(json.dumps([result.interrupted, result.answered, result.lost, result.cut, len(result.samples), result.unsent]))
"""


def start(url):
    """A Python process with a run of a minute; its generator, once it is sending."""
    owner = subprocess.Popen([sys.executable, "-c", SCRIPT, url], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True)
    assert owner.stdout.readline() == "ready\n"
    return owner


def workers(owner):
    """The generators of a process; other children of it may be zombies or end at this moment."""
    found = []
    for child in owner.children():
        with suppress(psutil.NoSuchProcess):
            if "tutorial_lib.load.worker" in " ".join(child.cmdline()):
                found.append(child)
    return found


def wait_for_requests(server, count):
    while len(server.log()) < count:
        assert server.pid


def test_an_interrupt_keeps_what_was_measured():
    with KnownServer(0.001) as server:
        owner = start(server.url)
        wait_for_requests(server, 20)
        owner.send_signal(signal.SIGINT)
        said, _ = owner.communicate(timeout=30)
    assert owner.returncode == 0
    interrupted, answered, lost, cut, total, unsent = json.loads(said)
    assert interrupted and answered >= 20 and lost == 0
    assert answered + cut + unsent == total == 3000


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_the_generator_ends_with_its_owner(how):
    with KnownServer(0.001) as server:
        owner = start(server.url)
        wait_for_requests(server, 5)
        children = psutil.Process(owner.pid).children()
        assert workers(psutil.Process(owner.pid))
        owner.send_signal(how)
        owner.wait(10)
        owner.stdout.close()
        _, alive = psutil.wait_procs(children, timeout=10)
        assert not alive


def test_a_dead_generator_is_an_error_and_leaves_nothing():
    with KnownServer(0.001) as server:
        killed = []

        def kill():
            for worker in workers(psutil.Process()):
                worker.kill()
                killed.append(worker.pid)

        once_asked(server, 10, kill)
        with pytest.raises(LoadError, match="its process ended with status -9"):
            load(server.url, concurrency=1, duration_s=30)
    assert killed and not any(psutil.pid_exists(pid) and pid != os.getpid() for pid in killed)


def test_it_runs_inside_a_running_event_loop_and_in_a_thread():
    import asyncio

    with KnownServer(0.001) as server:

        async def cell():
            return load(server.url, concurrency=2, duration_s=0.3)

        assert asyncio.run(cell()).answered > 0
        found = []
        thread = threading.Thread(target=lambda: found.append(load(server.url, concurrency=2, duration_s=0.3)))
        thread.start()
        thread.join()
        assert found[0].answered > 0


def test_cpu_and_memory_of_the_server_are_watched():
    with KnownServer(0.0, servers=10) as server:
        result = load(server.url, concurrency=8, duration_s=2, watch={"known": server.pid})
        usage = result.resources()
    assert set(usage.name) == {"known"} and len(usage) >= 2
    assert usage.cpu_percent.max() > 5 and usage.rss_mib.min() > 5
    with pytest.raises(LoadError, match="watch 'gone': found no process 4194305"):
        load("http://127.0.0.1:1/", concurrency=1, watch={"gone": 4_194_305})


def test_a_closed_loop_of_users_who_join():
    with KnownServer(0.001, servers=10) as server:
        result = load(server.url, users=Users(10, per_s=5, think_s=0.1), duration_s=1.5)
    assert not result.steady and result.steady_note == "users were still joining"
    line = result.timeline(bin_s=0.5)
    assert line.users.is_monotonic_increasing and line.users.iloc[0] < 6 <= line.users.iloc[-1] <= 8
    assert line.answered_rps.iloc[-1] > line.answered_rps.iloc[0]
