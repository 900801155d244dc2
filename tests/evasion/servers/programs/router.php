<?php
// Tells what PHP's own server takes a target for, and what applications make of the target.
function told(string $name, $path): void {
    if (is_string($path)) header("X-Served-$name: " . str_replace("%2F", "/", rawurlencode($path)));
}
told("script", $_SERVER["SCRIPT_NAME"]);
told("self", $_SERVER["PHP_SELF"]);
$path = parse_url($_SERVER["REQUEST_URI"], PHP_URL_PATH);
told("parse", $path);
if (is_string($path)) told("parse-unescaped", rawurldecode($path));
$raw = explode("?", $_SERVER["REQUEST_URI"], 2)[0];
told("raw-unescaped", rawurldecode($raw));
header("Content-Length: 0");
