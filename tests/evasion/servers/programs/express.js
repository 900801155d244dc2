// Tells what Express routes by, and which files it serves.
"use strict";
const express = require("express"), application = express();
const octets = (text) => [...Buffer.from(text, "utf8")].map((c) => "%" + c.toString(16).padStart(2, "0")).join("");
application.disable("x-powered-by");
application.use((request, response, next) => {
  response.setHeader("X-Served-path", octets(request.path));
  next();
});
for (const name of ["secret", "live"]) {
  application.use("/" + name, (request, response, next) => {
    response.setHeader("X-Served-router", octets(`/${name}/` + request.path.slice(1)));
    next();
  });
}
const root = process.argv[3];
application.use(express.static(root, {
  redirect: false,
  setHeaders: (response, file) => response.setHeader("X-Served-file", octets(file.slice(root.length))),
}));
application.use((request, response) => response.end());
application.listen(+process.argv[2], "127.0.0.1");
