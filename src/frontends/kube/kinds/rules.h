// What single kinds do with what a client sends, beyond what their schemas say: fields that are the server's own,
// values that follow from others, and what may not change. Everything is a function of the objects.
#pragma once

#include <boost/json/object.hpp>
#include <string_view>

#include "frontends/kube/machinery/field_error.h"

namespace lockstep::kube {

class KindRules {
 public:
  virtual ~KindRules() = default;
  // A new object, with its defaults filled in. Its status was dropped already.
  virtual void prepare_create(json::object& /*tree*/) const {}
  // Through a subresource only what belongs to it has been taken over; "" = the object itself.
  virtual void prepare_update(json::object& /*tree*/, const json::object& /*old*/,
                              std::string_view /*subresource*/) const {}
  // old: null of a new object.
  virtual void validate(const json::object& /*tree*/, const json::object* /*old*/, FieldErrors& /*out*/) const {}
  // The same of a change, where it matters through which subresource it comes.
  virtual void validate_update(const json::object& tree, const json::object& old, std::string_view /*subresource*/,
                               FieldErrors& out) const {
    validate(tree, &old, out);
  }
};

// type: as objects are stored ("configmaps", "deployments.apps").
const KindRules& rules_of(std::string_view type);

}  // namespace lockstep::kube
