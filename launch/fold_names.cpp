#include "launch/fold_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace autopar::launch {
namespace {

using Numbers = std::vector<long>;

constexpr std::size_t kMaxDigits = 9;

bool is_number(const std::string& text) {
  return !text.empty() && text.size() <= kMaxDigits &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; }) &&
         (text == "0" || text.front() != '0');
}

/// A name with its numbers taken out; the text between them, so one more piece than numbers.
struct Template {
  std::vector<std::string> pieces{""};
  Numbers numbers;
};

Template split(const std::string& name) {
  Template result;
  std::size_t begin = 0;
  while (begin <= name.size()) {
    const std::size_t end = std::min(name.find_first_of("./", begin), name.size());
    const std::string part = name.substr(begin, end - begin);
    if (is_number(part)) {
      result.numbers.push_back(std::stol(part));
      result.pieces.emplace_back();
    } else {
      result.pieces.back() += part;
    }
    if (end < name.size()) result.pieces.back() += name[end];
    begin = end + 1;
  }
  return result;
}

/// "0-3,7".
std::string ranges(const std::set<long>& numbers) {
  std::string text;
  for (auto it = numbers.begin(); it != numbers.end();) {
    const long first = *it;
    long last = first;
    while (++it != numbers.end() && *it == last + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", first);
    if (last > first) text += fmt::format("-{}", last);
  }
  return text;
}

std::string join(const std::vector<std::string>& pieces, const std::vector<std::set<long>>& numbers) {
  std::string text = pieces.front();
  for (std::size_t i = 0; i < numbers.size(); ++i) text += ranges(numbers[i]) + pieces[i + 1];
  return text;
}

struct Member {
  Numbers numbers;
  std::size_t index = 0;
};

/// The names of one template with equal facts, in few folded names.
std::vector<FoldedName> fold_group(const std::vector<std::string>& pieces, const std::vector<Member>& members) {
  std::vector<std::set<long>> all(pieces.size() - 1);
  FoldedName whole;
  for (const Member& member : members) {
    for (std::size_t i = 0; i < all.size(); ++i) all[i].insert(member.numbers[i]);
    whole.members.push_back(member.index);
  }
  std::size_t grid = 1;
  for (const std::set<long>& numbers : all) grid *= numbers.size();
  if (grid == members.size() || all.empty()) {  // else several things have one name, which has no number
    whole.name = join(pieces, all);
    return {whole};
  }
  struct Row {
    std::set<long> first;
    std::vector<std::size_t> members;
  };
  std::map<Numbers, Row> by_rest;
  for (const Member& member : members) {
    Row& row = by_rest[Numbers(member.numbers.begin() + 1, member.numbers.end())];
    row.first.insert(member.numbers.front());
    row.members.push_back(member.index);
  }
  std::vector<FoldedName> names;
  for (const auto& [rest, row] : by_rest) {
    std::vector<std::set<long>> numbers{row.first};
    for (const long number : rest) numbers.push_back({number});
    names.push_back({join(pieces, numbers), "", row.members});
  }
  return names;
}

/// The numbers of "0-3,7"; nothing if `text` is no such list.
std::vector<std::string> listed_numbers(const std::string& text) {
  constexpr long kMostNumbers = 1 << 16;
  std::vector<std::string> numbers;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const std::size_t dash = std::min(part.find('-'), part.size());
    const std::string first = part.substr(0, dash);
    const std::string last = dash < part.size() ? part.substr(dash + 1) : first;
    if (!is_number(first) || !is_number(last) || std::stol(last) - std::stol(first) >= kMostNumbers) return {};
    for (long number = std::stol(first); number <= std::stol(last); ++number) numbers.push_back(std::to_string(number));
    begin = end + 1;
  }
  return numbers;
}

}  // namespace

std::vector<FoldedName> fold_names(const std::vector<NamedFacts>& items) {
  struct Group {
    std::vector<std::string> pieces;
    std::string facts;
    std::vector<Member> members;
  };
  std::vector<Group> groups;
  std::map<std::pair<std::vector<std::string>, std::string>, std::size_t> group_of;
  for (std::size_t i = 0; i < items.size(); ++i) {
    Template name = split(items[i].name);
    const auto [it, is_new] = group_of.emplace(std::pair(name.pieces, items[i].facts), groups.size());
    if (is_new) groups.push_back({name.pieces, items[i].facts, {}});
    groups[it->second].members.push_back({std::move(name.numbers), i});
  }
  std::vector<FoldedName> folded;
  for (const Group& group : groups) {
    for (FoldedName& name : fold_group(group.pieces, group.members)) {
      name.facts = group.facts;
      folded.push_back(std::move(name));
    }
  }
  return folded;
}

std::vector<std::string> unfold_name(const std::string& name) {
  std::vector<std::string> names{""};
  std::size_t begin = 0;
  while (begin <= name.size()) {
    const std::size_t end = std::min(name.find_first_of("./", begin), name.size());
    const std::string part = name.substr(begin, end - begin);
    std::vector<std::string> choices = listed_numbers(part);
    if (choices.empty()) choices = {part};
    std::vector<std::string> longer;
    for (const std::string& before : names) {
      for (const std::string& choice : choices) {
        longer.push_back(before + choice + (end < name.size() ? std::string(1, name[end]) : ""));
      }
    }
    names = std::move(longer);
    begin = end + 1;
  }
  return names;
}

}  // namespace autopar::launch
