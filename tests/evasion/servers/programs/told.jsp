<%@ page session="false" trimDirectiveWhitespaces="true" import="java.net.URLEncoder" %><%
String path = request.getServletPath() + (request.getPathInfo() == null ? "" : request.getPathInfo());
response.setHeader("X-Served-path", URLEncoder.encode(path, "UTF-8"));
%>
