// How objects are shown: whole, their metadata alone, or as rows of a table.
#pragma once

#include <string>

#include "frontends/kube/kinds/pod_view.h"
#include "frontends/kube/server/request.h"

namespace lockstep::kube {

// One object in the form that the request accepts. seq: shown as its version, in the event that removes it. then: what
// a pod showed when it was told; null: what it shows now.
void append_shown(std::string& out, const Request& request, const Object& object, Seq seq = 0,
                  const PodRecords* then = nullptr);
// The same with the content type that goes with it.
void answer_shown(const Request& request, const Object& object, int status = 200);
// The same whole, as a tree: with what follows from the records that it shows. storage: where its parts lie.
json::object shown_tree(const Request& request, const Object& object, json::storage_ptr storage = {},
                        const PodRecords* then = nullptr);

// Whether an object of the type shows what follows from other records, beside its own.
bool shows_records(const Object& object);
// shown_tree() of any other object, which looks at nothing else: on any thread. wall_offset: of wall_offset_of().
json::object plain_tree(const Request& request, const Object& object, WallTime now, Duration wall_offset,
                        json::storage_ptr storage = {});

// What stands before and behind the items of a list in that form. Between them stand the items, with commas. A table
// names its columns, but for events that follow another one.
enum class Columns : bool { kNot, kNamed };
std::string list_head(const Request& request, Seq seq, const std::string& next, std::size_t left,
                      Columns columns = Columns::kNamed);
std::string list_end();
// Whether items of a list say what they are: of built-in kinds whole ones do not, the list does.
bool items_say_kind(const Request& request);
// Leaves that out of the object whose text begins there.
void drop_kind(std::string& text, std::size_t from, const Request& request);
void append_item(std::string& out, const Request& request, const Object& object, const PodRecords* then = nullptr);

// A list as protobuf. Its length stands before it, so it is put together before its first byte can go.
class ProtobufList {
 public:
  ProtobufList(const Request& request, Seq seq, const std::string& next, std::size_t left);
  void add(const Object& object);
  std::string end() &&;

 private:
  const Request& request_;
  std::string message_;
  std::string failed_;  // why an object cannot be in it; the list is a Status then
};

}  // namespace lockstep::kube
