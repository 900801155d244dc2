"""The real servers, each with the applications on it that tell what they serve.

A server tells it in its answer: in fields ``X-Served-...``, one for each way in which an application may read the
target, each escaped; or in a body ``served:...``.
"""

from __future__ import annotations

from evasion.servers.lab import Program


def _python(kind: str, name: str, at_once: int = 32) -> Program:
    """A server of the tests' own environment."""
    return Program(kind, f"@python@ @programs@/apps.py {kind} @port:{name}@ @root@", at_once=at_once)


def _system_python(kind: str, name: str) -> Program:
    """A server in Python that the system has a package of."""
    return Program(kind, f"/usr/bin/python3 @programs@/apps.py {kind} @port:{name}@ @root@", needs=[f"python3:{kind}"])


_VARNISH = (
    "varnishd -F -j none -n @folder@/work -f @folder@/varnish.vcl -s malloc,8m"
    " -a '127.0.0.1:@port:varnish, in front of a server@' -p http_req_size=256k -p http_req_hdr_len=128k"
    " -p workspace_client=512k -p workspace_backend=512k"
)
_TOMCAT = "/usr/share/tomcat10/bin/catalina.sh"
_JETTY = "/usr/share/jetty9/start.jar"
#: so that it starts with little work
_JAVA = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}

PROGRAMS: tuple[Program, ...] = (
    Program("node", "node @programs@/node.js @port:node@", needs=["node"]),
    Program(
        "express",
        "node @programs@/express.js @port:express@ @root@",
        needs=["node", "/usr/share/nodejs/express"],
        environment={"NODE_PATH": "/usr/share/nodejs"},  # which Debian's own Node knows
    ),
    Program("nginx", "nginx -c @folder@/nginx.conf", {"nginx.conf": "nginx.conf"}, ["nginx"], ["node"]),
    Program(
        "apache2",
        "apache2 -DFOREGROUND -f @folder@/apache2.conf",
        {"apache2.conf": "apache2.conf"},
        ["apache2", "/usr/lib/apache2/modules/mod_mpm_event.so"],
        ["node"],
    ),
    *(
        Program(
            name,
            "lighttpd -D -f @folder@/lighttpd.conf",
            {f"{name}.conf": "lighttpd.conf", "lighttpd-common.conf": "common.conf"},
            ["lighttpd"],
        )
        for name in ("lighttpd", "lighttpd-unnormalized")
    ),
    Program("caddy", "caddy run --config @folder@/Caddyfile", {"Caddyfile": "Caddyfile"}, ["caddy"], ["node"]),
    Program("haproxy", "haproxy -db -f @folder@/haproxy.cfg", {"haproxy.cfg": "haproxy.cfg"}, ["haproxy"], ["node"]),
    Program("varnish", _VARNISH, {"varnish.vcl": "varnish.vcl"}, ["varnishd"], ["node"]),
    Program("h2o", "h2o -c @folder@/h2o.conf", {"h2o.conf": "h2o.conf"}, ["h2o"]),
    Program(
        "tomcat",
        f"/bin/sh {_TOMCAT} run",
        {"server.xml": "conf/server.xml", "web.xml": "web/WEB-INF/web.xml", "told.jsp": "web/told.jsp"},
        ["java", _TOMCAT],
        environment={
            "CATALINA_HOME": "/usr/share/tomcat10",
            "CATALINA_BASE": "@folder@",
            "CATALINA_TMPDIR": "@folder@",
            **_JAVA,
        },
    ),
    Program(
        "jetty",
        f"java -jar {_JETTY} jetty.home=/usr/share/jetty9 jetty.base=@folder@ --module=http,deploy"
        " jetty.http.host=127.0.0.1 jetty.http.port=@port:jetty@",
        {"jetty.xml": "webapps/root.xml"},
        ["java", _JETTY],
        environment=_JAVA,
    ),
    Program("perl", "perl @programs@/daemon.pl @port:HTTP::Daemon@", needs=["perl:HTTP::Daemon"]),
    Program(
        "mojolicious",
        "perl @programs@/mojolicious.pl daemon -m production -l http://127.0.0.1:@port:Mojolicious@",
        needs=["perl:Mojolicious"],
    ),
    Program(
        "plack",
        "plackup -E deployment -s HTTP::Server::PSGI --host 127.0.0.1 --port @port:Plack@ --max-keepalive-reqs 1000000"
        " @programs@/plack.psgi",
        needs=["plackup"],
        at_once=1,
    ),
    Program("php", "php -S '127.0.0.1:@port:PHP, router@' @programs@/router.php", needs=["php"], at_once=1),
    Program("php-files", "php -S '127.0.0.1:@port:PHP, files@' -t @root@", needs=["php"], at_once=1),
    Program("webrick", "ruby @programs@/webrick.rb @port:WEBrick@", needs=["ruby:webrick"]),
    Program(
        "puma",
        "puma -q -t 1:4 -e production -b tcp://127.0.0.1:@port:Puma@ @programs@/rack.ru",
        needs=["puma", "ruby:rack"],
    ),
    _python("http_server", "http.server"),
    _python("wsgiref", "wsgiref", at_once=1),
    _python("werkzeug", "Werkzeug"),
    _python("tornado", "Tornado"),
    _python("hypercorn", "Hypercorn"),
    _system_python("waitress", "Waitress"),
    _system_python("cheroot", "Cheroot"),
    _system_python("aiohttp", "aiohttp"),
    _system_python("twisted", "Twisted"),
    Program(
        "twist",
        "/usr/bin/python3 -m twisted web --listen 'tcp:@port:Twisted, files@:interface=127.0.0.1' --path @root@",
        needs=["python3:twisted"],
    ),
    Program(
        "gunicorn",
        "/usr/bin/python3 -m gunicorn -b 127.0.0.1:@port:gunicorn@ -k gthread --threads 2 --keep-alive 60"
        " --limit-request-line 0 --pythonpath @programs@ apps:wsgi",
        needs=["python3:gunicorn"],
        at_once=1,
    ),
    Program(
        "uvicorn",
        "/usr/bin/python3 -m uvicorn --host 127.0.0.1 --port @port:uvicorn@ --log-level critical"
        " --app-dir @programs@ apps:asgi",
        needs=["python3:uvicorn"],
    ),
    Program("busybox", "busybox httpd -f -p 127.0.0.1:@port:BusyBox@ -h @root@", needs=["busybox"], at_once=1),
    Program("mini_httpd", "mini_httpd -D -h 127.0.0.1 -p @port:mini_httpd@ -d @root@", needs=["mini_httpd"], at_once=1),
    Program(
        "civetweb",
        "civetweb -listening_ports 127.0.0.1:@port:CivetWeb@ -document_root @root@ -enable_keep_alive yes",
        needs=["civetweb"],
        at_once=1,
    ),
)
