#include "io/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "tests/io/scratch.h"

namespace autopar::io {
namespace {

using ::testing::HasSubstr;
using testing::input_error;
using testing::Scratch;
using testing::slurp;

std::string gzip(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string varied_text(std::size_t size) {
  std::string text;
  unsigned state = 1;
  while (text.size() < size) text += static_cast<char>('a' + ((state = state * 1664525U + 1013904223U) >> 28));
  return text;
}

TEST(ReadFileTest, plain_and_gzip_give_the_same_whatever_the_name) {
  const Scratch scratch;
  for (const std::size_t size : {0UL, 1UL, 1000UL, 3000000UL}) {
    const std::string text = varied_text(size);
    EXPECT_EQ(read_file(scratch.put("plain.gz", text)), text);
    EXPECT_EQ(read_file(scratch.put("packed.json", gzip(text))), text);
  }
}

TEST(ReadFileTest, gzip_members_are_joined) {
  const Scratch scratch;
  EXPECT_EQ(read_file(scratch.put("two.gz", gzip("first ") + gzip("second"))), "first second");
}

TEST(ReadFileTest, a_cut_gzip_file_is_told_with_the_offset_wherever_it_is_cut) {
  const Scratch scratch;
  const std::string packed = gzip(varied_text(2000));
  for (std::size_t size = 2; size < packed.size(); size += 7) {
    const std::string path = scratch.put("cut.gz", packed.substr(0, size));
    EXPECT_EQ(input_error([&] { read_file(path); }),
              path + ": byte " + std::to_string(size) + ": the gzip data ends too early: the file is cut off");
  }
}

TEST(ReadFileTest, damaged_gzip_data_is_told) {
  const Scratch scratch;
  std::string packed = gzip(varied_text(2000));
  packed[packed.size() - 6] = static_cast<char>(packed[packed.size() - 6] ^ 1);  // in the checksum
  const std::string path = scratch.put("damaged.gz", packed);
  EXPECT_THAT(input_error([&] { read_file(path); }), HasSubstr("damaged gzip data (incorrect data check)"));
}

TEST(ReadFileTest, says_why_it_cannot_read) {
  const Scratch scratch;
  EXPECT_THAT(input_error([&] { read_file(scratch.path("none")); }), HasSubstr("none: cannot open: No such file"));
  EXPECT_THAT(input_error([&] { read_file(scratch.path(".")); }), HasSubstr("is a directory, not a file"));
}

TEST(ReadFileTest, a_gzip_bomb_is_refused) {
  const Scratch scratch;
  const std::string path = scratch.put("bomb.gz", gzip(std::string(std::size_t{9} << 20, ' ')));
  EXPECT_THAT(input_error([&] { read_file(path, std::int64_t{8} << 20); }), HasSubstr("larger than 8 MiB"));
  EXPECT_EQ(read_file(path, std::int64_t{9} << 20).size(), std::size_t{9} << 20);
}

TEST(WriteFileTest, replaces_whole_files_and_leaves_nothing_else) {
  const Scratch scratch;
  const std::string path = scratch.put("plan.json", "old and longer");
  write_file(path, "new");
  EXPECT_EQ(slurp(path), "new");
  EXPECT_EQ(scratch.num_files(), 1U);
}

TEST(WriteFileTest, a_new_file_has_ordinary_permissions) {
  const Scratch scratch;
  const mode_t mask = ::umask(027);
  write_file(scratch.path("plan.json"), "text");
  ::umask(mask);
  struct stat info {};
  ASSERT_EQ(::stat(scratch.path("plan.json").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640U);
}

TEST(WriteFileTest, on_failure_the_target_is_as_it_was_and_no_temporary_file_stays) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch.path("plan.json"));  // rename of a file onto a folder fails
  EXPECT_THAT(input_error([&] { write_file(scratch.path("plan.json"), "text"); }), HasSubstr("cannot write"));
  EXPECT_TRUE(std::filesystem::is_directory(scratch.path("plan.json")));
  EXPECT_EQ(scratch.num_files(), 1U);
  EXPECT_THAT(input_error([&] { write_file(scratch.path("none/plan.json"), "text"); }), HasSubstr("No such file"));
}

TEST(WriteFileTest, what_a_killed_writer_left_is_removed_and_what_another_one_writes_is_not) {
  const Scratch scratch;
  const std::string path = scratch.path("plan.json");
  scratch.put(".plan.json.1.0.tmp", "half");
  scratch.put(".plan.json.checkpoint.1.0.tmp", "of another file");
  scratch.put(".plan.json.mine.tmp", "of nobody here");
  const int written = ::open(scratch.put(".plan.json.2.0.tmp", "hal").c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(::flock(written, LOCK_EX), 0);
  write_file(path, "text");
  EXPECT_FALSE(std::filesystem::exists(scratch.path(".plan.json.1.0.tmp")));
  EXPECT_TRUE(std::filesystem::exists(scratch.path(".plan.json.2.0.tmp")));
  EXPECT_TRUE(std::filesystem::exists(scratch.path(".plan.json.checkpoint.1.0.tmp")));
  EXPECT_TRUE(std::filesystem::exists(scratch.path(".plan.json.mine.tmp")));
  ::close(written);
  remove_left_behind(path);
  EXPECT_FALSE(std::filesystem::exists(scratch.path(".plan.json.2.0.tmp")));
  EXPECT_EQ(slurp(path), "text");
}

TEST(WriteFileTest, devices_are_no_place_for_a_plan) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  EXPECT_THAT(input_error([] { check_writable("/dev/full"); }), HasSubstr("is not an ordinary file"));
}

TEST(ContentHashTest, is_xxh3) {
  // XXH3 of the empty input with seed 0, as its reference implementation documents it.
  EXPECT_EQ(content_hash(""), "xxh3:2d06800538d394c2");
  EXPECT_NE(content_hash("a"), content_hash("b"));
}

}  // namespace
}  // namespace autopar::io
