"""The web server in front of the REST API: connections, limits on size and time, and draining."""

import asyncio
import concurrent.futures
import logging
import threading

from aiohttp import web

from modules.serving.rest_api import Reply, RestApi, error_reply
from modules.serving.status import ServingUsageError

_LOG = logging.getLogger(__name__)
_KEEP_ALIVE_SECONDS = 75.0
_CLEANUP_SECONDS = 2.0  # for writing the last answers, once every request has one
_MAX_WAITING = 1024  # requests taken in at a time; beyond them the answer is 503 and not an ever longer queue


class RestServer:
    """Serves a RestApi on one address, from an event loop in a thread of its own; models run on a thread pool.

    Args:
      api: answers requests.
      host, port: where to listen; port 0 takes a free one.
      max_body_bytes: larger requests get 413.
      body_seconds: a client that does not send its whole body within this time gets 408.
      drain_seconds: how long requests in flight may take when the server stops.
      workers: requests that are worked on at the same time.
    """

    def __init__(
        self,
        api: RestApi,
        *,
        host: str,
        port: int,
        max_body_bytes: int,
        body_seconds: float,
        drain_seconds: float,
        workers: int,
    ):
        self._api = api
        self._host, self._port = host, port
        self._max_body_bytes = max_body_bytes
        self._body_seconds = body_seconds
        self._drain_seconds = drain_seconds
        self._pool = concurrent.futures.ThreadPoolExecutor(workers, thread_name_prefix="rest")
        self._waiting = 0  # requests in flight; this and the two below belong to the loop's thread
        self._draining = False
        self._idle = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="rest-loop", daemon=True)
        self._runner: web.AppRunner | None = None

    def start(self) -> int:
        """Listen; returns the port."""
        self._thread.start()
        return asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()

    def stop(self) -> None:
        """Refuse new connections, answer what is in flight for at most `drain_seconds`, then close."""
        if not self._thread.is_alive():
            return
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _start(self) -> int:
        application = web.Application(client_max_size=self._max_body_bytes)
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(
            application,
            handle_signals=False,
            access_log=None,
            keepalive_timeout=_KEEP_ALIVE_SECONDS,
            shutdown_timeout=_CLEANUP_SECONDS,
        )
        await self._runner.setup()
        self._site = web.TCPSite(self._runner, self._host, self._port)
        try:
            await self._site.start()
        except OSError as error:
            raise ServingUsageError(f"cannot listen on {self._host}:{self._port}: {error.strerror or error}") from None
        return self._runner.addresses[0][1]

    async def _stop(self) -> None:
        if self._runner is None:
            return
        self._draining = True
        if self._runner.sites:
            await self._site.stop()
        # aiohttp's own cleanup stops reading from connections at once: a body that is still arriving would be lost.
        try:
            async with asyncio.timeout(self._drain_seconds):
                while self._waiting:
                    self._idle.clear()
                    await self._idle.wait()
        except TimeoutError:
            _LOG.warning("%d requests were not answered within %g s", self._waiting, self._drain_seconds)
        await self._runner.cleanup()

    async def _handle(self, request: web.Request) -> web.Response:
        if self._waiting >= _MAX_WAITING:
            return _response(error_reply(503, f"overloaded: {_MAX_WAITING} requests are waiting already"))
        self._waiting += 1
        try:
            response = _response(await self._reply(request))
            if self._draining:
                response.force_close()  # the next request of this client belongs on another server
            return response
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._idle.set()

    async def _reply(self, request: web.Request) -> Reply:
        try:
            async with asyncio.timeout(self._body_seconds):
                body = await request.read()
        except TimeoutError:
            return error_reply(408, f"the body did not arrive within {self._body_seconds:g} s")
        except web.HTTPRequestEntityTooLarge:
            return error_reply(413, f"the body is larger than {self._max_body_bytes} bytes, the limit of this server")
        except (web.RequestPayloadError, ValueError, OSError) as error:
            return error_reply(400, f"the body cannot be read: {error}")
        path = request.rel_url.raw_path
        return await self._loop.run_in_executor(self._pool, self._api.answer, request.method, path, body)


def _response(reply: Reply) -> web.Response:
    return web.Response(status=reply.status, body=reply.body, headers={"Content-Type": reply.content_type})
