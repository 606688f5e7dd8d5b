// looks: one question to all, and one answer to those who asked.
#include "harness/looks.h"

#include <utility>

#include "base/json.h"

namespace shardproof {

namespace {

constexpr Duration patience = std::chrono::milliseconds(250);  // for a rank's answer

}  // namespace

Looks::Looks(int ranks, ControlServer& server, std::function<bool(int rank)> is_stopped)
    : ranks_(ranks), server_(server), is_stopped_(std::move(is_stopped)) {}

void Looks::take(const ControlEvent& event) {
  switch (event.kind) {
    case ControlEvent::Kind::hello:
      connected_.insert(event.rank);
      break;
    case ControlEvent::Kind::done:
    case ControlEvent::Kind::closed:
      gone_.insert(event.rank);
      break;
    case ControlEvent::Kind::look:
      begin(event.rank);
      break;
    case ControlEvent::Kind::records:
      take_records(event);
      break;
    case ControlEvent::Kind::verdict:
      if (verdict_) break;
      verdict_ = event.text;
      for (int rank = 0; rank < ranks_; ++rank) {
        server_.send(rank, Json{{"kind", "verdict"}, {"error", event.text}}.dump());
      }
      break;
    default:
      break;
  }
  tick();
}

void Looks::begin(int asker) {
  if (!look_) {
    look_.emplace(Look{.number = next_look_++, .end = Deadline::after(patience)});
    const std::string question = Json{{"kind", "records"}, {"look", look_->number}}.dump();
    for (int rank = 0; rank < ranks_; ++rank) server_.send(rank, question);
  }
  look_->askers.insert(asker);
}

void Looks::take_records(const ControlEvent& event) {
  try {
    const Json line = parse_json(event.text, "control socket", ErrorKind::corrupt);
    RankRecords records = rank_records_from_json(member(line, "records", "records"), "records");
    records.rank = event.rank;
    last_[event.rank] = std::move(records);
    if (look_ && integer_member(line, "look", "records") == look_->number) {
      look_->answered.insert(event.rank);
    }
  } catch (const Error&) {  // it stays silent
  }
}

void Looks::tick() {
  if (!look_) return;
  bool complete = true;
  for (const int rank : connected_) {
    complete = complete && (look_->answered.contains(rank) || gone_.contains(rank));
  }
  if (complete || look_->end.expired()) answer();
}

void Looks::answer() {
  Json all{{"kind", "all"}, {"ranks", Json::array()}};
  for (int rank = 0; rank < ranks_; ++rank) {
    const auto known = last_.find(rank);
    RankRecords records = known == last_.end() ? RankRecords() : known->second;
    records.rank = rank;
    if (gone_.contains(rank)) {
      records.life = RankLife::ended;
    } else if (!look_->answered.contains(rank)) {
      const bool stopped = is_stopped_ && is_stopped_(rank);
      records.life = stopped ? RankLife::stopped : RankLife::silent;
    }
    all["ranks"].push_back(to_json(records));
  }
  const std::string line = all.dump();
  for (const int rank : look_->askers) server_.send(rank, line);
  look_.reset();
}

}  // namespace shardproof
