# Tells what WEBrick takes a target for.
require "webrick"
require "erb"

server = WEBrick::HTTPServer.new(
  BindAddress: "127.0.0.1", Port: ARGV[0].to_i, AccessLog: [], Logger: WEBrick::Log.new(File::NULL), MaxClients: 64
)
escaped = ->(path) { path.b.gsub(/[^A-Za-z0-9\/]/n) { |c| "%%%02X" % c.ord } }
server.mount_proc("/") do |request, response|
  response["X-Served-path"] = escaped.(request.path)
  response["X-Served-info"] = escaped.(request.script_name.to_s + request.path_info.to_s)
  response["X-Served-uri"] = escaped.(request.request_uri.path.to_s)
  response.body = ""
end
trap("TERM") { server.shutdown }
server.start
