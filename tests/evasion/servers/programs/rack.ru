# Tells what Rack gives to applications, and what Rack::Files makes of it.
require "rack"
escaped = ->(path) { path.b.gsub(/[^A-Za-z0-9\/]/n) { |c| "%%%02X" % c.ord } }
run lambda { |environment|
  path = environment["PATH_INFO"]
  told = { "X-Served-path" => escaped.(path), "Content-Length" => "0", "Content-Type" => "text/plain" }
  begin
    name = Rack::Utils.unescape_path(path)
    told["X-Served-unescaped"] = escaped.(name)
    told["X-Served-file"] = escaped.(Rack::Utils.clean_path_info(name))
  rescue StandardError
    nil # it serves nothing
  end
  [200, told, []]
}
