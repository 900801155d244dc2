vcl 4.1;
backend behind { .host = "127.0.0.1"; .port = "@to:node@"; }
sub vcl_recv { return (pass); }
sub vcl_deliver { set resp.http.X-Served-seen = "" + req.http.X-None; unset resp.http.X-Served-seen; }
