// Visit: one request on its way through the API: what its path named, whose it is, and how it is answered.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "controller/turns.h"
#include "model/command.h"
#include "ports/http.h"
#include "views/visibility.h"

namespace lockstep {

struct Visit {
  std::shared_ptr<HttpExchange> exchange;
  std::vector<std::string> names;  // the path's variable parts
  Caller caller;
  bool account_asked = false;    // the user database, for this request
  Payer payer;                   // whose turns it takes
  Refusals* refusals = nullptr;  // where a refusal is counted

  const HttpRequest& http() const { return exchange->request(); }
  Viewer viewer() const { return {caller.user, caller.admin, caller.only_on}; }
  std::string node() const;                             // whose agent forwards it; "" = it came to us directly
  std::string_view query(std::string_view name) const;  // "" when it is not given
  void answer(std::string json) const;
  void text(std::string body) const;
  void refuse(const Error& error, int status = 0) const;  // 0: as the error's code says
};

// Whom a request is charged to, as far as the transport proves it.
std::string payer_name(const Peer& peer);

}  // namespace lockstep
