// Tells what ordinary applications take a target for; the names are those of the rows.
"use strict";
const http = require("http"), url = require("url"), path = require("path");

const octets = (text) => encodeURIComponent(text).replaceAll("%2F", "/"); // as a header may carry them

const lenient = (text) => { try { return decodeURIComponent(text); } catch { return unescape(text); } };
const posix = (text) => path.posix.normalize("/" + text);
const windows = (text) => path.win32.normalize(text).replaceAll("\\", "/");

const readings = {
  "url": (q) => new URL(q.url, "http://" + q.headers.host).pathname,
  "url-unescaped": (q) => lenient(readings["url"](q)),
  "url-file": (q) => posix(decodeURIComponent(readings["url"](q))),
  "url-windows": (q) => windows(decodeURIComponent(readings["url"](q))),
  "parse": (q) => url.parse(q.url).pathname || "/",
  "parse-file": (q) => posix(decodeURIComponent(readings["parse"](q))),
  "raw": (q) => q.url.split("?")[0],
  "raw-unescaped": (q) => lenient(readings["raw"](q)),
  "raw-file": (q) => posix(decodeURIComponent(readings["raw"](q))),
  "raw-windows": (q) => windows(decodeURIComponent(readings["raw"](q))),
};

http.createServer({ keepAliveTimeout: 60000, maxHeaderSize: 1 << 18 }, (request, response) => {
  for (const [name, read] of Object.entries(readings)) {
    try { response.setHeader("X-Served-" + name, octets(read(request))); } catch { /* it serves nothing */ }
  }
  response.setHeader("Content-Length", 0);
  response.end();
}).listen(+process.argv[2], "127.0.0.1");
