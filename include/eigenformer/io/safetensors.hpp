// Safetensors files (https://github.com/huggingface/safetensors): a little-endian 64-bit header length, the header
// padded with spaces, then the elements, row-major.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <ios>
#include <istream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <ostream>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/open_file.hpp"
#include "eigenformer/core/tensor.hpp"
#include "eigenformer/core/view.hpp"
#include "eigenformer/io/replace_file.hpp"
#include "eigenformer/io/safetensors_header.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// An open file: what it contains, and its elements on request. Use from one thread at a time.
class Safetensors {
 public:
  /// Reads and checks the header. Errors name the file, the tensor and the reason; nothing is allocated on the word of
  /// a file that is too short for it.
  explicit Safetensors(const std::filesystem::path& path)
      : Safetensors(std::make_unique<std::ifstream>(open_file("safetensors", path)), path.string()) {}

  /// The same from any stream that can seek; `name` stands for it in errors.
  Safetensors(std::unique_ptr<std::istream> stream, std::string name)
      : stream_(std::move(stream)), name_(std::move(name)) {
    stream_->seekg(0, std::ios::end);
    const std::streamoff end = stream_->tellg();
    stream_->seekg(0);
    validate(stream_->good() && end >= 0, "cannot be read");
    const std::uint64_t size = bytes_ = static_cast<std::uint64_t>(end);
    validate(size >= 8, "the file has ", size, " bytes, too few for the length of a header");

    unsigned char prefix[8];
    get(prefix, 8);
    std::uint64_t length = 0;
    for (int i = 7; i >= 0; --i) length = length << 8 | prefix[i];
    validate(length <= detail::longest_header, "the header would be ", length,
             " bytes long, more than the format's limit of ", detail::longest_header);
    validate(length <= size - 8, "the header would be ", length, " bytes long, but only ", size - 8, " follow");
    std::string header(static_cast<std::size_t>(length), '\0');
    get(header.data(), header.size());
    const std::string problem = detail::HeaderParser(metadata_, tensors_).parse(header);
    validate(problem.empty(), problem);
    data_ = 8 + length;
    check_layout(size - data_);
  }

  const std::string& name() const { return name_; }
  std::uint64_t bytes() const { return bytes_; }  ///< of the whole file
  const Metadata& metadata() const { return metadata_; }
  const StoredTensors& tensors() const { return tensors_; }
  std::uint64_t data_begin() const { return data_; }  ///< where the elements begin, from which tensors count

  /// Null if there is no such tensor.
  const StoredTensor* find(std::string_view name) const {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : &found->second;
  }

  /// Reads a tensor of this shape. Reals become float or double (F16 and BF16 exactly, F64 rounded to float), integers
  /// any integer type, booleans bool; other dtypes are an error, before `values` is touched. So is, once it is met, a
  /// number too large for T; an infinity or NaN that is stored is not.
  template <class T, int Rank>
  void read(std::string_view name, View<T, Rank> values) {
    const StoredTensor& stored = readable<T>(name);
    validate(detail::same_shape(stored.shape, values.shape()), detail::tensor_text(name), " is of shape ",
             detail::shape_text(stored.shape), ", not ", values.shape());
    const View<T, 2> rows = detail::rows_of(values);
    for (Index i = 0; i < rows.extent(0); ++i)
      read_elements(name, stored, i * rows.width(), View<T, 1>(rows.row(i), Shape{rows.width()}));
  }

  /// Reads as many elements of a tensor, row after row, from number `first` on.
  template <class T>
  void read_part(std::string_view name, Index first, View<T, 1> values) {
    const StoredTensor& stored = readable<T>(name);
    const Index count = detail::count_of(stored);
    validate(first >= 0 && first <= count && values.size() <= count - first, detail::tensor_text(name), " has ", count,
             " elements, not ", values.size(), " from number ", first, " on");
    read_elements(name, stored, first, values);
  }

  /// Reads a tensor of reals as `rows` rows, a chunk at a time: f(first row, chunk (n, width)). A chunk is all the
  /// memory it takes.
  template <class T, class F>
  void read_rows(std::string_view name, Index rows, F&& f) {
    const StoredTensor& stored = readable<T>(name);
    const Index count = detail::count_of(stored);
    if (count == 0) return;
    validate(rows > 0 && count % rows == 0, detail::tensor_text(name), " is of shape ",
             detail::shape_text(stored.shape), ", not ", rows, " rows");
    const Index width = count / rows, chunk = (std::min)(rows, (std::max)(Index{16}, Index{16384} / width));
    Tensor<T, 2> values(Shape{chunk, width});
    for (Index first = 0; first < rows; first += chunk) {
      const Index now = (std::min)(chunk, rows - first);
      read_elements(name, stored, first * width, View<T, 1>(values.data(), Shape{now * width}));
      f(first, ConstView<T, 2>(values.data(), Shape<2>{now, width}));
    }
  }

  /// Throws what read() would: looks through the elements if their dtype has any that are not values of T.
  template <class T>
  void require_values(std::string_view name) {
    const StoredTensor& stored = readable<T>(name);
    detail::with_stored_type(stored.dtype, [&](auto element) {
      if constexpr (!detail::always_fits<T, decltype(element)>())
        read_rows<T>(name, detail::count_of(stored), [](Index, ConstView<T, 2>) {});
    });
  }

  /// The same as a new tensor; a single number is a tensor of shape (1).
  template <class T, int Rank>
  Tensor<T, Rank> read(std::string_view name) {
    const StoredTensor& stored = readable<T>(name);
    Shape<Rank> shape{};
    const bool number = Rank == 1 && stored.shape.empty();
    validate(number || stored.shape.size() == static_cast<std::size_t>(Rank), detail::tensor_text(name),
             " is of shape ", detail::shape_text(stored.shape), ", which has not ", Rank,
             Rank == 1 ? " axis" : " axes");
    for (int axis = 0; axis < Rank; ++axis) shape[axis] = number ? 1 : stored.shape[static_cast<std::size_t>(axis)];
    Tensor<T, Rank> values(shape);
    read(name, values.view());
    return values;
  }

 private:
  template <class... Parts>
  void validate(bool holds, const Parts&... parts) const {
    if (!holds) [[unlikely]]
      fail("safetensors", name_, ": ", parts...);
  }

  void get(void* bytes, std::size_t count) {
    stream_->read(static_cast<char*>(bytes), static_cast<std::streamsize>(count));
    validate(stream_->good(), "cannot be read, or was cut off while being read");
  }

  void check_layout(std::uint64_t size) const {
    using Named = std::pair<const std::string, StoredTensor>;
    std::vector<const Named*> order;
    order.reserve(tensors_.size());
    for (const Named& tensor : tensors_) order.push_back(&tensor);
    std::sort(order.begin(), order.end(), [](const Named* a, const Named* b) {
      return std::tie(a->second.begin, a->second.end) < std::tie(b->second.begin, b->second.end);
    });
    std::uint64_t position = 0;
    for (const Named* named : order) {
      const StoredTensor& tensor = named->second;
      const std::string name = detail::tensor_text(named->first);
      validate(tensor.begin <= tensor.end, name, " begins at ", tensor.begin, " and ends at ", tensor.end);
      validate(tensor.begin == position, name, " begins at ", tensor.begin, ", but the one before ends at ", position);
      validate(tensor.end <= size, name, " ends at ", tensor.end, ", but there are ", size, " bytes of data");
      const std::string kind =
          detail::concatenate(" of shape ", detail::shape_text(tensor.shape), " and dtype ", tensor.dtype);
      const auto bytes = detail::byte_count(tensor);
      validate(bytes.has_value(), name, kind, " is too large, or does not fill whole bytes");
      validate(*bytes == tensor.end - tensor.begin, name, kind, " needs ", *bytes, " bytes, not ",
               tensor.end - tensor.begin);
      position = tensor.end;
    }
    validate(position == size, "the tensors end at ", position, ", but there are ", size, " bytes of data");
  }

  template <class T>
  const StoredTensor& readable(std::string_view name) const {
    const StoredTensor* const stored = find(name);
    validate(stored != nullptr, "there is no ", detail::tensor_text(name));
    validate(detail::readable<T>(stored->dtype), detail::tensor_text(name), " is of dtype ", stored->dtype,
             ", which cannot be read as ", detail::dtype_of<T>());
    return *stored;
  }

  /// Elements from number `first` on, of a tensor that is readable<T> and has so many.
  template <class T>
  void read_elements(std::string_view name, const StoredTensor& stored, Index first, View<T, 1> values) {
    detail::with_stored_type(stored.dtype, [&](auto element) {
      using S = decltype(element);
      if constexpr (detail::reads_as<T, S>) {
        stream_->clear();
        stream_->seekg(static_cast<std::streamoff>(data_ + stored.begin) +
                       static_cast<std::streamoff>(first) * static_cast<std::streamoff>(sizeof(S)));
        read_here<S>(name, first, values);
      }
    });
  }
  template <class S, class T>
  void read_here(std::string_view name, Index first, View<T, 1> values) {
    if constexpr (std::same_as<S, T>) {
      get(values.data(), static_cast<std::size_t>(values.size()) * sizeof(T));
    } else {
      std::vector<S> buffer(static_cast<std::size_t>((std::min)(values.size(), Index{1} << 14)));
      for (Index done = 0; done < values.size();) {
        const Index piece = (std::min)(values.size() - done, static_cast<Index>(buffer.size()));
        get(buffer.data(), static_cast<std::size_t>(piece) * sizeof(S));
        for (Index i = 0; i < piece; ++i, ++done)
          if (!detail::convert(buffer[static_cast<std::size_t>(i)], values[done]))
            validate(false, "element ", first + done, " of ", detail::tensor_text(name), " does not fit ",
                     detail::dtype_of<T>());
      }
    }
  }

  std::unique_ptr<std::istream> stream_;
  std::string name_;
  Metadata metadata_;
  StoredTensors tensors_;
  std::uint64_t bytes_ = 0, data_ = 0;  // data_: where the elements begin
};

/// Collects views and writes them as one file. The same content gives the same bytes.
class SafetensorsWriter {
 public:
  Metadata metadata;
  std::size_t alignment = 1;  ///< tensors of a multiple of so many bytes begin at one: they come first

  /// The elements are read by write(): they must stay until then. Reals, integers or bool; all but the last axis may
  /// have gaps, if they flatten to rows.
  template <class T, int Rank>
  void add(const std::string& name, View<T, Rank> values) {
    using Value = std::remove_const_t<T>;
    ensure(name != "__metadata__" && !items_.contains(name), "safetensors", detail::tensor_text(name),
           ": the name is taken");
    const View<T, 2> rows = detail::rows_of(values);
    Item item{
        detail::dtype_of<Value>(), sizeof(Value), {}, static_cast<std::uint64_t>(values.size()) * sizeof(Value), {}};
    item.shape.assign(values.shape().extents, values.shape().extents + Rank);
    item.write = [rows](std::ostream& file) {
      for (Index i = 0; i < rows.extent(0); ++i)
        file.write(reinterpret_cast<const char*>(rows.row(i)),
                   static_cast<std::streamsize>(sizeof(Value)) * rows.width());
    };
    items_.emplace(name, std::move(item));
  }
  /// A matrix that is made while it is written: row(i, to) gives row i.
  template <class T, class F>
  void add_rows(const std::string& name, const Shape<2>& shape, F row) {
    add(name, ConstView<T, 2>(nullptr, shape));
    items_.at(name).write = [=](std::ostream& file) {
      std::vector<T> values(static_cast<std::size_t>(shape[1]));
      for (Index i = 0; i < shape[0]; ++i) {
        row(i, values.data());
        file.write(reinterpret_cast<const char*>(values.data()),
                   static_cast<std::streamsize>(values.size() * sizeof(T)));
      }
    };
  }

  /// As replace_file() does: a failure is an Error, and leaves a file that was there as it was.
  void write(const std::filesystem::path& path) const {
    std::vector<const Named*> order;  // then the widest elements first: then every tensor is aligned
    for (const Named& item : items_) order.push_back(&item);
    const auto rank = [&](const Named* item) {
      return std::pair(item->second.bytes % alignment == 0, item->second.width);
    };
    std::stable_sort(order.begin(), order.end(), [&](const Named* a, const Named* b) { return rank(a) > rank(b); });
    const std::string header = header_of(order, path);

    replace_file("safetensors", path, [&](std::ostream& file) {
      char length[8];
      for (int i = 0; i < 8; ++i)
        length[i] = static_cast<char>(static_cast<std::uint64_t>(header.size()) >> 8 * i & 0xff);
      file.write(length, 8);
      file.write(header.data(), static_cast<std::streamsize>(header.size()));
      for (const Named* item : order) item->second.write(file);
    });
  }

 private:
  struct Item {
    std::string_view dtype;
    std::size_t width;  // bytes of an element
    std::vector<Index> shape;
    std::uint64_t bytes;
    std::function<void(std::ostream&)> write;
  };
  using Named = std::pair<const std::string, Item>;

  std::string header_of(const std::vector<const Named*>& order, const std::filesystem::path& path) const {
    std::string header = "{";
    try {
      if (!metadata.empty()) header.append("\"__metadata__\":").append(nlohmann::json(metadata).dump());
      std::uint64_t begin = 0;
      for (const auto* named : order) {
        const auto& [name, item] = *named;
        const std::uint64_t end = begin + item.bytes;
        header.append(header.size() > 1 ? "," : "")
            .append(nlohmann::json(name).dump())
            .append(":{\"dtype\":\"")
            .append(item.dtype);
        header.append("\",\"shape\":").append(nlohmann::json(item.shape).dump());
        header.append(",\"data_offsets\":").append(nlohmann::json({begin, end}).dump()).append("}");
        begin = end;
      }
    } catch (const nlohmann::json::exception&) {
      fail("safetensors", path.string(), ": a name or a text of the metadata is not UTF-8");
    }
    header += '}';
    const std::size_t unit = std::lcm(alignment, std::size_t{8});
    header.resize((8 + header.size() + unit - 1) / unit * unit - 8, ' ');
    ensure(header.size() <= detail::longest_header, "safetensors", path.string(), ": the header would be ",
           header.size(), " bytes long, more than the format's limit of ", detail::longest_header);
    return header;
  }

  std::map<std::string, Item> items_;
};

}  // namespace eigenformer
