// ctest: unit
// Other people's checkpoints: files that PyTorch 2.11 wrote (testdata/foreign.py), and small ones
// made here. Each kind of damage is named, by tensor.
#include "checkpoint/foreign/foreign.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "base/expect_error.h"
#include "base/temp_folder.h"
#include "checkpoint/checkpoint_testing.h"
#include "checkpoint/foreign/pickle_objects.h"
#include "checkpoint/foreign/zip.h"

namespace shardproof::foreign {
namespace {

namespace fs = std::filesystem;

const std::string testdata = SHARDPROOF_TESTDATA "/foreign";

std::string text_of_damages(const Checkpoint& checkpoint) {
  std::string text;
  for (const Damage& damage : checkpoint.damages) {
    text += damage.where + ": expected " + damage.expected + ", found " + damage.found + "\n";
  }
  return text;
}

void expect_damage(const std::string& path, std::initializer_list<std::string_view> parts) {
  const std::string text = text_of_damages(read_foreign(path));
  for (const std::string_view part : parts) {
    EXPECT_NE(text.find(part), text.npos) << path << ":\n" << text << "lacks: " << part;
  }
}

void expect_whole(const std::string& path, const std::string& format, std::size_t tensors) {
  const Checkpoint checkpoint = read_foreign(path);
  EXPECT_EQ(text_of_damages(checkpoint), "") << path;
  EXPECT_EQ(checkpoint.format, format);
  EXPECT_EQ(checkpoint.tensors.size(), tensors) << path;
}

std::string file_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// A copy of a folder or file of the test data, to be damaged.
class Copy {
 public:
  explicit Copy(const std::string& name) : name_(name) {
    fs::copy(testdata + "/" + name, path(), fs::copy_options::recursive);
  }
  std::string path(const std::string& inner = "") const {
    return folder_.file(name_) + (inner.empty() ? "" : "/" + inner);
  }
  void write(const std::string& inner, const std::string& text) const {
    std::ofstream(path(inner), std::ios::binary) << text;
  }
  std::string read(const std::string& inner = "") const { return file_text(path(inner)); }

 private:
  TempFolder folder_;
  std::string name_;
};

std::vector<float> floats(Checkpoint& checkpoint, const std::string& name) {
  const Tensor& tensor = checkpoint.tensors.at(name);
  const Chunk& chunk = tensor.chunks.at(0);
  const auto bytes = checkpoint.open(chunk.file)->bytes().subspan(chunk.begin);
  std::vector<float> out(static_cast<std::size_t>(element_count(tensor.shape)));
  std::memcpy(out.data(), bytes.data(), out.size() * sizeof(float));
  return out;
}

TEST(TorchFile, IsReadByTheKeysThatLeadToItsTensors) {
  Checkpoint checkpoint = read_foreign(testdata + "/model.pt");
  EXPECT_EQ(text_of_damages(checkpoint), "");
  std::string names;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    names += name + " " + words(tensor.type, tensor.shape) + "\n";
  }
  EXPECT_EQ(names,
            "model.bias BF16 [5]\nmodel.half F16 [3]\nmodel.none F32 [0,3]\nmodel.rows F32 [2,4]\n"
            "model.step I64 []\nmodel.turned F32 [4,6]\nmodel.weight F32 [4,6]\n"
            "optimizer.state.0.exp_avg F32 [2,1]\noptimizer.state.0.step F32 []\n"
            "optimizer.state.1.exp_avg F32 [2,2]\noptimizer.state.1.step F32 []\n");
  EXPECT_EQ(floats(checkpoint, "model.weight")[23], 23.0F);
  EXPECT_EQ(floats(checkpoint, "model.rows")[0], 104.0F) << "a view from the second row on";
  EXPECT_EQ(checkpoint.tensors.at("model.turned").chunks[0].strides, (Shape{1, 4}));
  EXPECT_TRUE(checkpoint.notes.empty());
}

TEST(TorchFile, NamesTheTensorWhoseBytesChanged) {
  const Copy copy("model.pt");
  std::string text = copy.read();
  const float value = 17.0F;  // model.weight alone has it
  const std::size_t at = text.find(std::string(reinterpret_cast<const char*>(&value), 4));
  ASSERT_NE(at, text.npos);
  text[at + 2] ^= 1;
  copy.write("", text);
  expect_damage(copy.path(), {"record 'model/data/0' (model.weight): expected CRC", "found CRC"});
}

TEST(TorchFile, RefusesOneThatIsCutShortOrHasADamagedPickle) {
  const Copy copy("model.pt");
  const std::string text = copy.read();
  for (const std::size_t size : {text.size() - 1, text.size() / 2, std::size_t{3}}) {
    copy.write("", text.substr(0, size));
    expect_damage(copy.path(), {"cut short"});
  }
  std::string changed = text;
  changed[text.find("optimizer")] ^= 1;
  copy.write("", changed);
  expect_damage(copy.path(), {"record 'model/data.pkl': CRC mismatch"});
}

// Every flip of a bit is either named or changes nothing that is read.
TEST(TorchFile, NoFlippedBitIsTakenForOtherTensors) {
  const Copy copy("rows.pt");
  Checkpoint whole = read_foreign(copy.path());
  ASSERT_EQ(whole.tensors.size(), 1u);
  const Digest digest = digest_of(whole, whole.tensors.begin()->second);
  const std::string text = copy.read();
  std::size_t named = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] ^= static_cast<char>(1 << i % 8);
    copy.write("", changed);
    Checkpoint found = read_foreign(copy.path());
    named += found.damages.empty() ? 0 : 1;
    if (!found.damages.empty()) continue;
    ASSERT_EQ(found.tensors.size(), 1u) << i;
    EXPECT_EQ(digest_of(found, found.tensors.begin()->second), digest) << i;
  }
  EXPECT_GT(named, text.size() / 3);
}

TEST(NanoGpt, IsHeldToItsModelArguments) {
  expect_whole(testdata + "/nano.pt", "nanoGPT (torch.save)", 4);
  expect_damage(testdata + "/nano_short.pt", {"model.transformer.h.1.ln_1.weight", "2 layers"});
}

TEST(Dcp, IsCoveredByItsChunks) {
  expect_whole(testdata + "/dcp", "dcp", 3);
  const Checkpoint checkpoint = read_foreign(testdata + "/dcp");
  EXPECT_EQ(checkpoint.tensors.at("rows").chunks.size(), 2u);
  EXPECT_EQ(checkpoint.tensors.at("columns").shape, (Shape{3, 4}));
}

TEST(Dcp, NamesHolesOverlapsAndPlaces) {
  const Copy copy("dcp");
  const auto with = [&](const std::string& metadata) {
    copy.write(".metadata", file_text(testdata + "/" + metadata + ".metadata"));
    return copy.path();
  };
  expect_damage(with("hole"), {"rows: expected chunks of 12 elements, found a hole: 6 elements are "
                               "in no chunk, the first at [2,0]",
                               "rows: expected a tensor or object of this name"});
  expect_damage(with("overlap"), {"rows: expected chunks that do not overlap, found an overlap: "
                                  "[2,3] at [0,0] and [2,3] at [1,0]"});
  expect_damage(with("bounds"),
                {"rows: expected chunks within [3,3], found a chunk out of bounds"});
  expect_damage(with("place"), {"bias: expected a place in a file, found none"});
}

TEST(Dcp, NamesWhatIsCutShortMissingOrChanged) {
  const Copy cut("dcp");
  const std::string file = cut.read("__1_0.distcp");
  cut.write("__1_0.distcp", file.substr(0, file.size() - 1));
  expect_damage(cut.path(), {"__1_0.distcp: ", "truncation: the file has"});
  cut.write("__1_0.distcp", file);
  EXPECT_EQ(text_of_damages(read_foreign(cut.path())), "");

  std::string changed = file;
  const float value = 7.0F;  // of the second half of rows
  const std::size_t at = file.find(std::string(reinterpret_cast<const char*>(&value), 4));
  ASSERT_NE(at, file.npos);
  changed[at] ^= 4;
  cut.write("__1_0.distcp", changed);
  expect_damage(cut.path(), {"__1_0.distcp: rows: record '", "expected CRC"});
  fs::remove(cut.path("__1_0.distcp"));
  expect_damage(cut.path(), {"__1_0.distcp: expected a file that can be read"});
  fs::remove(cut.path(".metadata"));
  expect_damage(cut.path(), {".metadata: expected a file that can be read"});
}

TEST(Dcp, ExecutesNothing) {
  const Copy copy("dcp");
  const std::string marker = copy.path("executed");
  copy.write(".metadata", "cposix\nsystem\n(X" + std::string("\x07\0\0\0", 4) + "touch x" + "tR.");
  expect_damage(copy.path(), {".metadata", "no Metadata with a member"});
  EXPECT_FALSE(fs::exists("x"));
  const PickleObjects objects = PickleObjects::parse(copy.read(".metadata"), "p");
  EXPECT_TRUE(objects.is_call(objects.root(), "posix.system"));
}

std::string little(std::uint64_t number, int width) {
  std::string text;
  for (int i = 0; i < width; ++i) text += static_cast<char>(number >> (8 * i));
  return text;
}

std::string safetensors(const std::string& header, std::size_t data) {
  return little(header.size(), 8) + header + std::string(data, 'x');
}

std::string entry(const std::string& name, const std::string& shape, int begin, int end) {
  return "\"" + name + R"(":{"dtype":"I16","shape":)" + shape + ",\"data_offsets\":[" +
         std::to_string(begin) + "," + std::to_string(end) + "]}";
}

TEST(Safetensors, OfAnotherWriterAreReadAndTheirDamagesNamed) {
  expect_whole(testdata + "/../python.safetensors", "safetensors", 7);
  const TempFolder folder;
  const std::string path = folder.file("model.safetensors");
  const auto with = [&](const std::string& header, std::size_t data) {
    folder.write("model.safetensors", safetensors(header, data));
    return path;
  };
  const std::string a = entry("a", "[2,2]", 0, 8), b = entry("b", "[3]", 8, 14);
  expect_whole(with("{" + a + "," + b + "}", 14), "safetensors", 2);
  expect_whole(folder.path(), "safetensors", 2);
  expect_damage(with("{" + a + "," + b + "}", 13),
                {"model.safetensors: b: expected bytes [", "truncation: the file has"});
  expect_damage(with("{" + a + "," + b + "}", 16), {"a hole: 16 bytes, the last 2 of no tensor"});
  expect_damage(with("{" + a + "," + entry("b", "[3]", 10, 16) + "}", 16),
                {"b: expected data from byte 8 on, where a ends, found a hole: from byte 10 on"});
  expect_damage(with("{" + a + "," + entry("b", "[3]", 6, 12) + "}", 12), {"b: ", "an overlap"});
  expect_damage(with("{" + a + "," + entry("b", "[4]", 8, 14) + "}", 14),
                {"b: expected bytes for I16 [4], found size mismatch"});
  expect_damage(with("{" + a + "," + entry("b", "[4611686018427387904,8]", 8, 14) + "}", 14),
                {"b: "});
  expect_damage(with("{" + a + "," + a + "}", 8), {"model.safetensors: header"});
  folder.write("model.safetensors", little(1ULL << 60, 8) + "{");
  expect_damage(path, {"a header of 1152921504606846976 bytes in a file of 9"});
}

TEST(HuggingFaceIndex, IsHeldToItsShards) {
  const TempFolder folder;
  folder.write("model-1.safetensors", safetensors("{" + entry("a", "[2,2]", 0, 8) + "}", 8));
  folder.write("model-2.safetensors", safetensors("{" + entry("b", "[3]", 0, 6) + "}", 6));
  const auto with = [&](const std::string& map, int total) {
    folder.write("model.safetensors.index.json", R"({"metadata":{"total_size":)" +
                                                     std::to_string(total) + "},\"weight_map\":{" +
                                                     map + "}}");
    return folder.path();
  };
  const std::string a = R"("a":"model-1.safetensors")", b = R"("b":"model-2.safetensors")";
  expect_whole(with(a + "," + b, 14), "safetensors index", 2);
  expect_damage(with(a + "," + b, 15), {"total_size: expected 14, the bytes of its tensors"});
  expect_damage(with(a + R"(,"b":"model-1.safetensors")", 14),
                {"b: expected in model-1.safetensors, as the index says, found no such tensor"});
  expect_damage(with(a + R"(,"b":"model-3.safetensors")", 14),
                {"model-3.safetensors: expected a file that can be read"});
  expect_damage(with(a + R"(,"b":"../b.safetensors")", 14), {"the name of a file in its folder"});
  folder.write("model-2.safetensors",
               safetensors("{" + entry("a", "[1]", 0, 2) + "," + entry("b", "[3]", 2, 8) + "}", 8));
  expect_damage(with(a + "," + b, 14), {"a: expected a tensor once, found it is there twice"});
  folder.write("model-2.safetensors",
               safetensors("{" + entry("c", "[1]", 0, 2) + "," + entry("b", "[3]", 2, 8) + "}", 8));
  expect_damage(with(a + "," + b, 14), {"c: expected a line of model.safetensors.index.json"});
}

std::string llm_c_file(int version, std::int64_t extra) {
  std::string text;
  for (const std::uint64_t field : {20240326, version, 4, 5, 2, 2, 4, 8}) text += little(field, 4);
  text.resize(1024, '\0');
  // 8x4 + 4x4, two layers of 12 x 4 x 4 + 13 x 4, and 2 x 4.
  const std::int64_t parameters = 32 + 16 + 2 * (192 + 52) + 8;
  text.resize(static_cast<std::size_t>(1024 + parameters * (version == 3 ? 4 : 2) + extra), 'y');
  return text;
}

TEST(LlmC, IsHeldToItsHeader) {
  const TempFolder folder;
  const auto with = [&](int version, std::int64_t extra) {
    folder.write("gpt2.bin", llm_c_file(version, extra));
    return folder.file("gpt2.bin");
  };
  expect_whole(with(3, 0), "llm.c", 16);
  expect_whole(with(5, 0), "llm.c", 16);
  expect_damage(with(3, -1), {"gpt2.bin: lnfb: expected bytes", "truncation"});
  expect_damage(with(3, 4), {"as its header says"});
  expect_damage(with(4, 0), {"version 4 of llm.c's model file"});
}

TEST(Zip, RefusesWhatItDoesNotRead) {
  const std::string text = file_text(testdata + "/rows.pt");
  std::string changed = text;
  const std::size_t central = text.find("PK\x01\x02");
  changed[central + 10] = 8;
  const auto read = [](const std::string& archive) {
    read_zip(std::as_bytes(std::span(archive.data(), archive.size())), "z");
  };
  read(text);
  expect_error(ErrorKind::corrupt, {"z", "is compressed"}, [&] { read(changed); });
  expect_error(ErrorKind::corrupt, {"bytes behind it"}, [&] { read(text + "x"); });
  EXPECT_EQ(crc32(std::as_bytes(std::span("123456789", 9))), 0xcbf43926U)
      << "the usual check value";
}

TEST(Format, OfSomethingElseIsNone) {
  const TempFolder folder;
  folder.write("notes.txt", "hello");
  EXPECT_EQ(format_of(folder.path()), "");
  EXPECT_EQ(format_of(folder.file("notes.txt")), "");
  expect_error(ErrorKind::bad_input, {"is no checkpoint that is known"},
               [&] { read_foreign(folder.file("notes.txt")); });
}

std::string differences(const std::string& left, const std::string& right) {
  Checkpoint a = read_foreign(left), b = read_foreign(right);
  std::string text;
  for (const StateDifference& each : diff_foreign(a, b)) {
    text += each.entry + " " + std::to_string(each.element) + ": " + each.left + " | " +
            each.right + "\n";
  }
  return text;
}

TEST(Diff, ComparesAcrossFormatsAndChunks) {
  const TempFolder folder;
  // The tensors of the dcp folder, whole, in one safetensors file.
  std::string header = "{", data;
  const auto add = [&](const std::string& name, const Shape& shape, float start) {
    const std::size_t begin = data.size();
    for (std::int64_t i = 0; i < element_count(shape); ++i) {
      const float value = start + static_cast<float>(i);
      data.append(reinterpret_cast<const char*>(&value), 4);
    }
    header += (header.size() > 1 ? ",\"" : "\"") + name + R"(":{"dtype":"F32","shape":)" +
              Json(shape).dump() + ",\"data_offsets\":[" + std::to_string(begin) + "," +
              std::to_string(data.size()) + "]}";
  };
  add("rows", {4, 3}, 0);
  add("columns", {3, 4}, 50);
  add("bias", {5}, 0);
  const auto write = [&] {
    folder.write("f.safetensors", little(header.size() + 1, 8) + header + "}" + data);
    return folder.file("f.safetensors");
  };
  EXPECT_EQ(differences(testdata + "/dcp", write()), "");
  data[4 * (12 + 6) + 3] ^= static_cast<char>(0x80);  // the sign of columns[1, 2]
  EXPECT_EQ(differences(testdata + "/dcp", write()), "columns 6: 42600000 | c2600000\n");
  add("more", {2}, 0);
  EXPECT_EQ(differences(write(), testdata + "/dcp"),
            "columns 6: c2600000 | 42600000\nmore -1: F32 [2] | absent\n");
}

TEST(Diff, ComparesOneOfOursWithASafetensorsFileOfTheSame) {
  const TempFolder folder;
  const auto storage = posix_storage(folder.path(), false);
  shardproof::testing::State state = shardproof::testing::small_state(1);
  shardproof::testing::write_small(*storage, 3, "a", state);
  const Manifest manifest = read_manifest(*storage, "a");
  Checkpoint ours = view_of(folder.path(), manifest);
  EXPECT_EQ(ours.tensors.size(), 5u);
  Checkpoint same = view_of(folder.path(), manifest);
  EXPECT_TRUE(diff_foreign(ours, same).empty());
  // The bytes of a tensor in pieces, over several files, are those of the whole tensor.
  std::vector<std::byte> whole(40 * 70 * 4);
  std::size_t pieces = 0;
  for (const auto& tensor : state.tensors()) {
    if (tensor.what != "param" || tensor.piece.name != "a.weight") continue;
    const auto at = static_cast<std::size_t>(tensor.piece.box.offsets[0]) * 70 * 4;
    std::copy(tensor.bytes.begin(), tensor.bytes.end(),
              whole.begin() + static_cast<std::ptrdiff_t>(at));
    ++pieces;
  }
  EXPECT_EQ(pieces, 2u);
  EXPECT_EQ(digest_of(ours, ours.tensors.at("a.weight")), sha256(whole.data(), whole.size()));
}

}  // namespace
}  // namespace shardproof::foreign
