# Tells what PSGI gives to applications.
use strict;
use warnings;
use URI::Escape qw(uri_escape);
sub {
    my $environment = shift;
    my $path = $environment->{PATH_INFO};
    my @found;
    for my $part (split m{[\\/]}, $path, -1) {
        if    ($part eq "..")                { pop @found }
        elsif ($part ne "" && $part ne ".") { push @found, $part }
    }
    return [200, [
        "X-Served-path"      => uri_escape($path, "^A-Za-z0-9/"),
        "X-Served-path-file" => uri_escape("/" . join("/", @found), "^A-Za-z0-9/"),
        "Content-Length"     => 0,
    ], [""]];
};
