// Reading: one object, lists in pages, and watches.
#pragma once

#include "frontends/kube/server/conversion.h"
#include "frontends/kube/server/request.h"
#include "frontends/kube/server/shown_texts.h"

namespace lockstep::kube {

struct ReadTools {
  std::shared_ptr<const ObjectHistory> history;
  ConversionTools conversion;
  std::shared_ptr<WatchBell> bell;  // of watches that wait for webhooks, or are sent as messages
  std::shared_ptr<ShownTexts> texts;
  std::function<std::string(std::string_view)> sha1;  // 20 bytes
};

void get_object(const Asked& request, const ReadTools& tools);
void list_objects(const Asked& request, const ReadTools& tools);
void watch_objects(const Asked& request, const ReadTools& tools);

}  // namespace lockstep::kube
