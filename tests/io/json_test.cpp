#include "io/json.h"

#include <gmock/gmock.h>

#include "tests/io/scratch.h"

namespace autopar::io {
namespace {

using ::testing::HasSubstr;
using testing::input_error;

std::string parse_error(const std::string& text) {
  return input_error([&] { const JsonDocument document("f.json", text); });
}

TEST(JsonDocumentTest, syntax_errors_have_line_and_column) {
  EXPECT_THAT(parse_error("{\n  \"a\": 1,\n  \"b\" 2\n}"), HasSubstr("f.json: line 3, column 7: not JSON: "));
  EXPECT_THAT(parse_error("{\"a\": [1, 2}"), HasSubstr("f.json: line 1, column 12: not JSON: "));
  EXPECT_THAT(parse_error("{\"a\": 1} x"), HasSubstr("f.json: line 1, column 10: not JSON: "));
  EXPECT_THAT(parse_error("{\"a\": \"\xff\"}"), HasSubstr("f.json: line 1, column 8: not JSON: "));
  EXPECT_THAT(parse_error("{\"a\": NaN}"), HasSubstr("f.json: line 1, column 7: not JSON: "));
}

TEST(JsonDocumentTest, other_faults_of_the_whole_file) {
  EXPECT_EQ(parse_error(""), "f.json: is empty");
  EXPECT_EQ(parse_error(" \n\t"), "f.json: is empty");
  EXPECT_EQ(parse_error("[123456789012345678901234567890]"), "f.json: not JSON: a number that does not fit in 64 bits");
  EXPECT_EQ(parse_error(std::string(100000, '[') + std::string(100000, ']')),
            "f.json: nested more than 64 levels deep");
}

TEST(JsonDocumentTest, a_byte_order_mark_is_passed_over) {
  const JsonDocument document("f.json", "\xef\xbb\xbf[7]");
  EXPECT_EQ(document.root().items()[0].int64(), 7);
  EXPECT_EQ(parse_error("\xef\xbb\xbf"), "f.json: is empty");
}

TEST(JsonValueTest, errors_say_where_and_what) {
  const JsonDocument document("f.json", R"({"nodes": [{}, {"key": "layer.0/f/mm", "args": [1.5, "x", {"a b": []}]}],
                                            "big": 18446744073709551615, "twice": {"k": 1, "k": 2}})");
  const JsonValue root = document.root();
  const JsonValue node = root.at("nodes").items()[1];
  EXPECT_EQ(input_error([&] { node.at("op"); }), "f.json: nodes[1] (layer.0/f/mm): key \"op\" is missing");
  EXPECT_EQ(input_error([&] { node.at("args").items()[0].int64(); }),
            "f.json: nodes[1] (layer.0/f/mm).args[0]: expected an integer, found a number with a fraction");
  EXPECT_EQ(input_error([&] { node.at("args").int64_list(); }),
            "f.json: nodes[1] (layer.0/f/mm).args[0]: expected an integer, found a number with a fraction");
  EXPECT_EQ(input_error([&] { node.at("args").items()[2].at("a b").string(); }),
            "f.json: nodes[1] (layer.0/f/mm).args[2][\"a b\"]: expected a string, found a list");
  EXPECT_EQ(input_error([&] { root.at("big").int64(); }), "f.json: big: does not fit in a signed 64-bit integer");
  EXPECT_EQ(input_error([&] { root.at("twice").fields(); }), "f.json: twice: key \"k\" is there twice");
  EXPECT_EQ(input_error([&] { root.at("twice").expect_keys({"k"}); }), "f.json: twice: key \"k\" is there twice");
  EXPECT_EQ(input_error([&] {
              root.expect_keys({"nodes", "big"});
            }),
            "f.json: unknown key \"twice\"; expected nodes, big");
  EXPECT_EQ(input_error([&] { root.at("nodes").fields(); }), "f.json: nodes: expected an object, found a list");
}

TEST(JsonValueTest, a_message_stays_one_line_whatever_the_key) {
  const JsonDocument document("f.json", "{\"nodes\": [{\"key\": \"a\\nb" + std::string(1000, 'x') + "\"}]}");
  const std::string message = input_error([&] { document.root().at("nodes").items()[0].at("op"); });
  EXPECT_EQ(message.find('\n'), std::string::npos);
  EXPECT_LT(message.size(), 200U);
}

}  // namespace
}  // namespace autopar::io
