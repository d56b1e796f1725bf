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

/// The names of one template with equal facts, in few folded names.
std::vector<std::string> fold_group(const std::vector<std::string>& pieces, const std::vector<Numbers>& members) {
  std::vector<std::set<long>> all(pieces.size() - 1);
  for (const Numbers& numbers : members) {
    for (std::size_t i = 0; i < numbers.size(); ++i) all[i].insert(numbers[i]);
  }
  std::size_t grid = 1;
  for (const std::set<long>& numbers : all) grid *= numbers.size();
  if (grid == members.size()) return {join(pieces, all)};
  std::map<Numbers, std::set<long>> by_rest;
  for (const Numbers& numbers : members) by_rest[Numbers(numbers.begin() + 1, numbers.end())].insert(numbers.front());
  std::vector<std::string> names;
  for (const auto& [rest, first] : by_rest) {
    std::vector<std::set<long>> numbers{first};
    for (const long number : rest) numbers.push_back({number});
    names.push_back(join(pieces, numbers));
  }
  return names;
}

}  // namespace

std::vector<NamedFacts> fold_names(const std::vector<NamedFacts>& items) {
  struct Group {
    std::vector<std::string> pieces;
    std::string facts;
    std::vector<Numbers> members;
  };
  std::vector<Group> groups;
  std::map<std::pair<std::vector<std::string>, std::string>, std::size_t> group_of;
  for (const NamedFacts& item : items) {
    Template name = split(item.name);
    const auto [it, is_new] = group_of.emplace(std::pair(name.pieces, item.facts), groups.size());
    if (is_new) groups.push_back({name.pieces, item.facts, {}});
    groups[it->second].members.push_back(std::move(name.numbers));
  }
  std::vector<NamedFacts> folded;
  for (const Group& group : groups) {
    for (std::string& name : fold_group(group.pieces, group.members)) folded.push_back({std::move(name), group.facts});
  }
  return folded;
}

}  // namespace autopar::launch
