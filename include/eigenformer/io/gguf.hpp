// GGUF files (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md), versions 2 and 3: "GGUF", a version, numbers
// of tensors and of keys, the keys with typed values, the tensors' names, shapes, types and offsets, then, aligned,
// their blocks. All numbers are little-endian; lengths and counts have 64 bits.
#pragma once

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <ios>
#include <istream>
#include <iterator>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/open_file.hpp"
#include "eigenformer/core/tensor.hpp"
#include "eigenformer/core/view.hpp"
#include "eigenformer/io/gguf_blocks.hpp"
#include "eigenformer/io/safetensors_header.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

namespace detail {

/// What a value of metadata may be, by its id.
enum class GgufValue : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, text, array, u64, i64, f64 };
inline constexpr Index gguf_value_bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};  // at least

}  // namespace detail

/// An open file: what it contains, and its elements on request. Use from one thread at a time. Errors name the file,
/// the key or tensor and the reason; nothing is allocated on the word of a file that is too short for it.
class Gguf {
 public:
  explicit Gguf(const std::filesystem::path& path)
      : Gguf(std::make_unique<std::ifstream>(open_file("gguf", path)), path.string()) {}

  /// The same from any stream that can seek; `name` stands for it in errors.
  Gguf(std::unique_ptr<std::istream> stream, std::string name) : stream_(std::move(stream)), name_(std::move(name)) {
    stream_->seekg(0, std::ios::end);
    const std::streamoff end = stream_->tellg();
    stream_->seekg(0);
    validate(stream_->good() && end >= 0, "cannot be read");
    left_ = size_ = static_cast<std::uint64_t>(end);
    char magic[4];
    get(magic, 4, "the header");
    validate(std::string_view(magic, 4) == "GGUF", "does not begin with GGUF");
    const auto version = number<std::uint32_t>("the header");
    validate((version & 0xffff) != 0 || version == 0, "is big-endian, which is not supported");
    validate(version == 2 || version == 3, "is of version ", version, ", but only 2 and 3 are supported");
    const auto tensors = number<std::uint64_t>("the header"), keys = number<std::uint64_t>("the header");
    // A tensor takes 25 bytes at least, a key 14.
    validate(tensors <= left_ / 25, "has ", tensors, " tensors by its header, but only ", left_, " bytes follow");
    validate(keys <= left_ / 14, "has ", keys, " keys by its header, but only ", left_, " bytes follow");
    for (std::uint64_t i = 0; i < keys; ++i) read_key();
    set_alignment();
    for (std::uint64_t i = 0; i < tensors; ++i) read_tensor();
    data_ = padded(size_ - left_);
    check_layout();
  }

  const std::string& name() const { return name_; }
  /// An object of keys and values; numbers keep whether they are integers. Lists of lists are not supported.
  const nlohmann::json& metadata() const { return metadata_; }
  /// By their names, with shapes in our order, rows first. A dtype is the name of one of gguf_types.
  const StoredTensors& tensors() const { return tensors_; }

  /// Null if there is no such tensor.
  const StoredTensor* find(std::string_view name) const {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : &found->second;
  }

  /// Whether elements of a dtype are read as T.
  template <class T>
  static bool readable(std::string_view dtype) {
    const GgufType* const type = std::floating_point<T> ? find_gguf_type(dtype) : nullptr;
    return type && type->decode;
  }

  /// Reads as many elements of a tensor, row after row, from number `first` on.
  template <class T>
  void read_part(std::string_view name, Index first, View<T, 1> values) {
    const auto& [stored, type] = known(name);
    validate(type->decode != nullptr, detail::tensor_text(name), " is of type ", type->name,
             ", which is not supported");
    const Index count = detail::count_of(*stored);
    validate(first >= 0 && first <= count && values.size() <= count - first, detail::tensor_text(name), " has ", count,
             " elements, not ", values.size(), " from number ", first, " on");
    constexpr Index chunk = 16384;  // elements, a number of whole blocks
    std::vector<std::uint8_t> bytes;
    std::vector<float> decoded;
    for (Index done = 0; done < values.size();) {
      const Index begin = (first + done) / type->block, skipped = (first + done) % type->block,
                  now = (std::min)(values.size() - done, chunk - skipped),
                  blocks = (skipped + now + type->block - 1) / type->block;
      bytes.resize(static_cast<std::size_t>(blocks * type->bytes));
      decoded.resize(static_cast<std::size_t>(blocks * type->block));
      read_blocks(name, begin, bytes);
      type->decode(bytes.data(), blocks, decoded.data());
      std::copy_n(decoded.data() + skipped, now, values.data() + done);
      done += now;
    }
  }

  /// Reads a tensor as `rows` rows, a chunk at a time: f(first row, chunk (n, width)). A chunk is all the memory it
  /// takes.
  template <class T, class F>
  void read_rows(std::string_view name, Index rows, F&& f) {
    const Index count = detail::count_of(*known(name).stored);
    if (count == 0) return;
    validate(rows > 0 && count % rows == 0, detail::tensor_text(name), " is of shape ",
             detail::shape_text(known(name).stored->shape), ", not ", rows, " rows");
    const Index width = count / rows, chunk = (std::min)(rows, (std::max)(Index{16}, Index{16384} / width));
    Tensor<T, 2> values(Shape{chunk, width});
    for (Index first = 0; first < rows; first += chunk) {
      const Index now = (std::min)(chunk, rows - first);
      read_part(name, first * width, View<T, 1>(values.data(), Shape{now * width}));
      f(first, ConstView<T, 2>(values.data(), Shape<2>{now, width}));
    }
  }

  /// Reads blocks as they are, from number `first` on: those of a row follow each other, and rows do.
  void read_blocks(std::string_view name, Index first, std::span<std::uint8_t> bytes) {
    const auto& [stored, type] = known(name);
    const std::uint64_t begin = static_cast<std::uint64_t>(first) * static_cast<std::uint64_t>(type->bytes),
                        has = stored->end - stored->begin;
    validate(first >= 0 && begin <= has && bytes.size() <= has - begin, detail::tensor_text(name), " has ", has,
             " bytes, not ", bytes.size(), " from block ", first, " on");
    stream_->clear();
    stream_->seekg(static_cast<std::streamoff>(data_ + stored->begin + begin));
    stream_->read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    validate(stream_->good(), "cannot be read, or was cut off while being read");
  }

 private:
  struct Known {
    const StoredTensor* stored;
    const GgufType* type;
  };
  Known known(std::string_view name) const {
    const StoredTensor* const stored = find(name);
    validate(stored != nullptr, "there is no ", detail::tensor_text(name));
    return {stored, find_gguf_type(stored->dtype)};
  }

  template <class... Parts>
  void validate(bool holds, const Parts&... parts) const {
    if (!holds) [[unlikely]]
      fail("gguf", name_, ": ", parts...);
  }

  void get(void* bytes, std::uint64_t count, const std::string& where) {
    validate(count <= left_, "ends within ", where, ": it wants ", count, " bytes, but only ", left_, " follow");
    left_ -= count;
    stream_->read(static_cast<char*>(bytes), static_cast<std::streamsize>(count));
    validate(stream_->good(), "cannot be read, or was cut off while being read");
  }
  template <class T>
  T number(const std::string& where) {
    T value{};
    get(&value, sizeof value, where);
    return value;
  }
  std::string text(const std::string& where) {
    const auto length = number<std::uint64_t>(where);
    validate(length <= left_, "has a text of ", length, " bytes in ", where, ", but only ", left_, " follow");
    std::string value(static_cast<std::size_t>(length), '\0');
    get(value.data(), length, where);
    return value;
  }

  void read_key() {
    const std::string key = text("a key"), here = "key " + detail::in_quotes(key);
    validate(!key.empty(), "has an empty key");
    validate(!metadata_.contains(key), "has ", here, " twice");
    const auto kind = value_kind(here);
    metadata_[key] = kind == detail::GgufValue::array ? list(here) : value(kind, here);
  }
  detail::GgufValue value_kind(const std::string& where) {
    const auto kind = number<std::uint32_t>(where);
    validate(kind < std::size(detail::gguf_value_bytes), where, " is of the unknown type ", kind);
    return static_cast<detail::GgufValue>(kind);
  }
  nlohmann::json list(const std::string& where) {
    const auto kind = value_kind(where);
    validate(kind != detail::GgufValue::array, where, " is a list of lists, which is not supported");
    const auto count = number<std::uint64_t>(where);
    const auto least = static_cast<std::uint64_t>(detail::gguf_value_bytes[static_cast<std::size_t>(kind)]);
    validate(count <= left_ / least, where, " would have ", count, " values, but only ", left_, " bytes follow");
    nlohmann::json::array_t values;
    values.reserve(static_cast<std::size_t>(count));
    for (std::uint64_t i = 0; i < count; ++i) values.push_back(value(kind, where));
    return values;
  }
  nlohmann::json value(detail::GgufValue kind, const std::string& where) {
    using enum detail::GgufValue;
    switch (kind) {
      case u8: return number<std::uint8_t>(where);
      case i8: return number<std::int8_t>(where);
      case u16: return number<std::uint16_t>(where);
      case i16: return number<std::int16_t>(where);
      case u32: return number<std::uint32_t>(where);
      case i32: return number<std::int32_t>(where);
      case u64: return number<std::uint64_t>(where);
      case i64: return number<std::int64_t>(where);
      case f32: return number<float>(where);
      case f64: return number<double>(where);
      case text: return this->text(where);
      default: break;
    }
    const auto truth = number<std::uint8_t>(where);
    validate(truth <= 1, where, " is ", int{truth}, ", neither true nor false");
    return truth == 1;
  }

  void set_alignment() {
    const auto found = metadata_.find("general.alignment");
    if (found == metadata_.end()) return;
    validate(found->is_number_unsigned() && std::has_single_bit(found->get<std::uint64_t>()) &&
                 found->get<std::uint64_t>() <= 1u << 30,
             "key \"general.alignment\" is no power of two");
    alignment_ = found->get<std::uint64_t>();
  }
  std::uint64_t padded(std::uint64_t position) const { return (position + alignment_ - 1) / alignment_ * alignment_; }

  void read_tensor() {
    constexpr std::size_t longest = 64;
    const std::string name = text("a tensor's name"), here = detail::tensor_text(name);
    validate(name.size() <= longest, here, " has a name of ", name.size(), " bytes, more than ", longest);
    const auto [place, is_new] = tensors_.try_emplace(name);
    validate(is_new, here, " is there twice");
    StoredTensor& tensor = place->second;
    const auto axes = number<std::uint32_t>(here);
    validate(axes <= 4, here, " has ", axes, " axes, more than 4");
    std::uint64_t count = 1;
    for (std::uint32_t axis = 0; axis < axes; ++axis) {
      const auto extent = number<std::uint64_t>(here);
      // As if zeros were ones: strides are products too.
      constexpr std::uint64_t limit = static_cast<std::uint64_t>((std::numeric_limits<Index>::max)()) / 64;
      const std::uint64_t factor = (std::max)(extent, std::uint64_t{1});
      validate(factor <= limit / count, here, " is too large");
      count *= factor;
      tensor.shape.insert(tensor.shape.begin(), static_cast<Index>(extent));  // the last axis comes first
    }
    const auto id = number<std::uint32_t>(here);
    const GgufType* const type = find_gguf_type(id);
    validate(type != nullptr, here, " is of the unknown type ", id);
    tensor.dtype = type->name;
    const Index width = tensor.shape.empty() ? 1 : tensor.shape.back();
    validate(width % type->block == 0, here, " has rows of ", width, ", which are not blocks of ", type->block, " ",
             type->name);
    tensor.begin = number<std::uint64_t>(here);
    validate(tensor.begin % alignment_ == 0, here, " begins at ", tensor.begin, ", which is no multiple of ",
             alignment_);
    if (std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end()) count = 0;
    const std::uint64_t bytes =
        count / static_cast<std::uint64_t>(type->block) * static_cast<std::uint64_t>(type->bytes);
    validate(tensor.begin <= size_ && bytes <= size_ - tensor.begin, here, " begins at ", tensor.begin, " and has ",
             bytes, " bytes, but the file has only ", size_);
    tensor.end = tensor.begin + bytes;
  }

  /// Tensors lie within the file, and nowhere on each other.
  void check_layout() const {
    const std::uint64_t size = size_ > data_ ? size_ - data_ : 0;
    using Named = StoredTensors::value_type;
    std::vector<const Named*> order;
    for (const Named& tensor : tensors_) {
      validate(tensor.second.end <= size, detail::tensor_text(tensor.first), " ends at ", tensor.second.end,
               ", but there are ", size, " bytes of data");
      if (tensor.second.end > tensor.second.begin) order.push_back(&tensor);
    }
    std::sort(order.begin(), order.end(),
              [](const Named* a, const Named* b) { return a->second.begin < b->second.begin; });
    for (std::size_t i = 1; i < order.size(); ++i)
      validate(order[i - 1]->second.end <= order[i]->second.begin, detail::tensor_text(order[i]->first), " begins at ",
               order[i]->second.begin, ", but ", detail::tensor_text(order[i - 1]->first), " ends at ",
               order[i - 1]->second.end);
  }

  std::unique_ptr<std::istream> stream_;
  std::string name_;
  nlohmann::json metadata_ = nlohmann::json::object();
  StoredTensors tensors_;
  std::uint64_t size_ = 0, left_ = 0;  // bytes of the file, and of those what has not been read of the header
  std::uint64_t alignment_ = 32, data_ = 0;
};

}  // namespace eigenformer
