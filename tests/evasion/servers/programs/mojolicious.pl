# Tells what Mojolicious's routes and its static files take a target for.
use Mojolicious::Lite -signatures;
use Mojo::Util qw(url_escape encode);

app->log->level("fatal");
my $escaped = sub ($path) { url_escape(utf8::is_utf8($path) ? encode("UTF-8", $path) : $path, "^A-Za-z0-9/") };
hook before_dispatch => sub ($c) {
    return $c->rendered(400) if $c->req->error;
    my $path = $c->req->url->path;
    $c->res->headers->header("X-Served-route" => $escaped->($path->to_route));
    my $file = $path->clone->canonicalize;
    $c->res->headers->header("X-Served-file" => $escaped->("/" . join "/", @{$file->parts}));
    $c->render(data => "");
};
app->start;
