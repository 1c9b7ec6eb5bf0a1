// What a server behind the API's proxy says of itself, as who asked through the proxy reaches it: links in pages and
// redirections. Source: kubernetes.io/docs/tasks/access-application-cluster/access-cluster-services.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::kube {

struct ProxyPlace {
  std::string prefix;  // "/api/v1/namespaces/default/pods/web/proxy"
  std::string host;    // as the client calls us: "10.0.0.1:6820"
  std::string server;  // as the server is called: "10.77.1.3:8080"
};

// A link of the server's own, absolute or beginning with "/", leads through the proxy; others stay.
std::string proxied_link(std::string_view link, const ProxyPlace& place);
// The same for every attribute of a page that holds a link.
std::string proxied_page(std::string_view page, const ProxyPlace& place);

}  // namespace lockstep::kube
