"""Tells what Python's servers take a target for: `python apps.py KIND PORT ROOT`; others load `wsgi` or `asgi`."""

import posixpath
import re
import sys
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote_from_bytes, unquote_to_bytes


def escaped(octets):
    return quote_from_bytes(octets, safe="/")


def file_of(path):
    """The file that a path names: what posixpath.normpath makes of it, and a folder where it ends as one."""
    name = posixpath.normpath(b"/" + path.lstrip(b"/"))
    return name + b"/" if re.search(rb"/\.{0,2}\Z", path) and name != b"/" else name


def readings(**paths):
    for name, path in paths.items():
        yield f"X-Served-{name}", escaped(path)
        yield f"X-Served-{name}-file", escaped(file_of(path))


def wsgi(environ, start_response):
    found = dict(readings(path=environ["PATH_INFO"].encode("latin-1")))
    start_response("200 OK", [*found.items(), ("Content-Length", "0"), ("Content-Type", "text/plain")])
    return [b""]


async def asgi(scope, receive, send):
    if scope["type"] != "http":
        return
    found = dict(readings(path=scope["path"].encode("utf-8", "surrogateescape")))
    headers = [(name.lower().encode(), value.encode()) for name, value in found.items()]
    await send({"type": "http.response.start", "status": 200, "headers": [*headers, (b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


class Files(SimpleHTTPRequestHandler):
    """`python3 -m http.server`, which tells the file that it looks for."""

    protocol_version = "HTTP/1.1"

    def parse_request(self):
        self.path = ""  # not that of the request before, where this one cannot be read
        return super().parse_request()

    def end_headers(self):
        if self.path:
            name = self.translate_path(self.path)[len(self.directory) :]
            self.send_header("X-Served", escaped(name.encode("utf-8", "surrogateescape") or b"/"))
        super().end_headers()

    def log_message(self, *_):
        pass


def http_server(port, root):
    class Here(Files):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=root)

    ThreadingHTTPServer(("127.0.0.1", port), Here).serve_forever()


def wsgiref(port, _):
    from wsgiref.simple_server import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        def log_message(self, *_):
            pass

    make_server("127.0.0.1", port, wsgi, handler_class=Quiet).serve_forever()


def werkzeug(port, _):
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"

        def log(self, *_):
            pass

    make_server("127.0.0.1", port, wsgi, threaded=True, request_handler=Quiet).serve_forever()


def tornado(port, _):
    import asyncio

    from tornado.web import Application, RequestHandler

    class PathHandler(RequestHandler):
        def get(self, path):
            for name, value in readings(raw=self.request.path.encode("latin-1"), path=b"/" + path.encode()):
                self.set_header(name, value)

    async def serve():
        Application([(rb"/?(.*)".decode(), PathHandler)], log_function=lambda _: None).listen(port, "127.0.0.1")
        await asyncio.Event().wait()

    asyncio.run(serve())


def hypercorn(port, _):
    import asyncio

    from hypercorn.asyncio import serve
    from hypercorn.config import Config

    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    config.keep_alive_max_requests = 1 << 30
    asyncio.run(serve(asgi, config))


def waitress(port, _):
    from waitress import serve

    serve(wsgi, host="127.0.0.1", port=port, threads=2, _quiet=True)


def cheroot(port, _):
    from cheroot.wsgi import Server

    Server(("127.0.0.1", port), wsgi).safe_start()


def aiohttp(port, root):
    from aiohttp import web

    async def answer(request):
        return web.Response(
            headers=dict(
                readings(path=request.path.encode(), matched=b"/" + request.match_info["rest"].encode()),
            )
        )

    application = web.Application()
    application.router.add_route("*", "/{rest:.*}", answer)
    web.run_app(application, host="127.0.0.1", port=port, print=None, access_log=None)


def twisted(port, root):
    from twisted.internet import reactor
    from twisted.web.resource import Resource
    from twisted.web.server import Site

    class Echo(Resource):
        isLeaf = True  # noqa: N815

        def render(self, request):
            found = readings(path=unquote_to_bytes(request.path), segments=b"/" + b"/".join(request.postpath))
            for name, value in found:
                request.setHeader(name, value)
            return b""

    reactor.listenTCP(port, Site(Echo()), interface="127.0.0.1")
    reactor.run()


if __name__ == "__main__":
    globals()[sys.argv[1]](int(sys.argv[2]), sys.argv[3])
