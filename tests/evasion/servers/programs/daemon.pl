# Tells what an application on HTTP::Daemon takes a target for.
use strict;
use warnings;
use HTTP::Daemon;
use HTTP::Response;
use Socket qw(IPPROTO_TCP TCP_NODELAY);
use URI::Escape qw(uri_escape uri_unescape);

$SIG{PIPE} = "IGNORE";
$SIG{CHLD} = "IGNORE";
my $daemon = HTTP::Daemon->new(LocalAddr => "127.0.0.1", LocalPort => $ARGV[0], ReuseAddr => 1, Listen => 64) or die $!;

sub file_of {    # what File::Spec and Cwd make of it, without links
    my @found;
    for my $part (split m{/}, shift, -1) {
        if    ($part eq "..")                 { pop @found }
        elsif ($part ne "" && $part ne ".") { push @found, $part }
    }
    return "/" . join "/", @found;
}

sub escaped { my $path = shift; utf8::encode($path) if utf8::is_utf8($path); return uri_escape($path, "^A-Za-z0-9/") }

while (1) {
    my $client = $daemon->accept or next;
    my $child  = fork;
    if ($child) { close $client; undef $client; next }
    setsockopt $client, IPPROTO_TCP, TCP_NODELAY, 1;
    while (my $request = $client->get_request) {
        my $response = HTTP::Response->new(200);
        my $path = $request->uri->path;
        my $name = uri_unescape($path);
        $response->header("X-Served-uri"           => escaped($path));
        $response->header("X-Served-uri-unescaped" => escaped($name));
        $response->header("X-Served-uri-file"      => escaped(file_of($name)));
        $response->header("X-Served-uri-canonical" => escaped($request->uri->canonical->path));
        $response->content("-");    # without a body, it ends the connection
        $client->send_response($response);
    }
    $client->close;
    exit 0;
}
