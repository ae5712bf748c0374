// What the safetensors format says: element types, and the JSON header
//
//   {"__metadata__": {"key": "value"}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …}
//
// Every rule of the reference implementation is enforced, and two more: no key twice, as its description demands, and
// no field but these.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/half.hpp"
#include "eigenformer/core/scalar.hpp"
#include "eigenformer/core/tensor.hpp"
#include "eigenformer/core/view.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// The free text of a file.
using Metadata = std::map<std::string, std::string>;

/// What a file says about one of its tensors.
struct StoredTensor {
  std::string_view dtype;            ///< as the format spells it: "F32", "BF16", …
  std::vector<Index> shape;          ///< empty for a single number
  std::uint64_t begin = 0, end = 0;  ///< bytes, counted from the end of the header
};
using StoredTensors = std::map<std::string, StoredTensor, std::less<>>;

namespace detail {

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian, and so must be the machine");

inline constexpr std::uint64_t longest_header = 100'000'000;  // as in the reference implementation

struct Boolean {
  std::uint8_t byte;
};

struct Dtype {
  std::string_view name;
  std::uint64_t bits;
};
inline constexpr Dtype dtypes[] = {
    {"BOOL", 8},    {"U8", 8},      {"I8", 8},      {"U16", 16},    {"I16", 16},        {"U32", 32},
    {"I32", 32},    {"U64", 64},    {"I64", 64},    {"F16", 16},    {"BF16", 16},       {"F32", 32},
    {"F64", 64},    {"C64", 64},    {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8},
    {"F8_E8M0", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4}};

inline const Dtype* find_dtype(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(dtypes), std::end(dtypes), [&](const Dtype& d) { return d.name == name; });
  return found == std::end(dtypes) ? nullptr : found;
}

/// f(a value of the type that holds an element of this dtype), if we have one.
template <class F>
void with_stored_type(std::string_view dtype, F&& f) {
  if (dtype == "F32") f(float{});
  else if (dtype == "F64") f(double{});
  else if (dtype == "F16") f(Half{});
  else if (dtype == "BF16") f(BrainFloat{});
  else if (dtype == "I64") f(std::int64_t{});
  else if (dtype == "I32") f(std::int32_t{});
  else if (dtype == "I16") f(std::int16_t{});
  else if (dtype == "I8") f(std::int8_t{});
  else if (dtype == "U64") f(std::uint64_t{});
  else if (dtype == "U32") f(std::uint32_t{});
  else if (dtype == "U16") f(std::uint16_t{});
  else if (dtype == "U8") f(std::uint8_t{});
  else if (dtype == "BOOL") f(Boolean{});
}

template <class T>
constexpr std::string_view dtype_of() {
  if constexpr (std::same_as<T, bool>) {
    return "BOOL";
  } else if constexpr (std::same_as<T, Half>) {
    return "F16";
  } else if constexpr (std::same_as<T, BrainFloat>) {
    return "BF16";
  } else if constexpr (std::floating_point<T>) {
    static_assert(Real<T>);
    return sizeof(T) == 4 ? "F32" : "F64";
  } else {
    static_assert(std::integral<T>);
    constexpr std::string_view names[] = {"U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64"};
    return names[2 * (std::bit_width(sizeof(T)) - 1) + (std::signed_integral<T> ? 1 : 0)];
  }
}

template <class T>
concept Integer = std::integral<T> && !std::same_as<T, bool>;

/// Whether elements stored as S may be read as T: reals as reals, integers as integers, booleans as booleans.
template <class T, class S>
inline constexpr bool reads_as = std::same_as<T, bool> ? std::same_as<S, Boolean>
                                 : Integer<T>          ? Integer<S>
                                                       : !Integer<S> && !std::same_as<S, Boolean>;

template <class T>
bool readable(std::string_view dtype) {
  bool result = false;
  with_stored_type(dtype, [&](auto stored) { result = reads_as<T, decltype(stored)>; });
  return result;
}

inline float widen(float x) { return x; }
inline double widen(double x) { return x; }

/// Whether the stored element is a value of T.
template <class T, class S>
bool convert(S stored, T& value) {
  if constexpr (std::same_as<S, Boolean>) {
    value = stored.byte == 1;
    return stored.byte <= 1;
  } else if constexpr (Integer<S>) {
    value = static_cast<T>(stored);
    return std::in_range<T>(stored);
  } else {
    const auto wide = widen(stored);
    value = static_cast<T>(wide);
    return std::isfinite(value) || !std::isfinite(wide);
  }
}

/// Whether every element stored as S may be read as T, and is a value of it.
template <class T, class S>
constexpr bool always_fits() {
  if constexpr (!reads_as<T, S> || std::same_as<S, Boolean>) return false;
  else if constexpr (Integer<S>)
    return std::in_range<T>((std::numeric_limits<S>::min)()) && std::in_range<T>((std::numeric_limits<S>::max)());
  else return sizeof(T) >= sizeof(S);
}

template <class... Parts>
std::string concatenate(const Parts&... parts) {
  std::string text;
  (text.append(error_part(parts)), ...);
  return text;
}

// How files are quoted in errors: in full only if of sensible length.
inline std::string in_quotes(std::string_view text) {
  return concatenate("\"", text.substr(0, 200), text.size() > 200 ? "…\"" : "\"");
}
inline std::string tensor_text(std::string_view name) { return concatenate("tensor ", in_quotes(name)); }
inline std::string shape_text(const std::vector<Index>& shape) {
  std::string text = "(";
  for (const Index extent : shape) {
    text.append(text.size() > 1 ? ", " : "");
    if (text.size() > 200) return text + "…)";
    text.append(std::to_string(extent));
  }
  return text + ")";
}

/// Whether a stored shape is this one; a single number counts as one axis of length 1.
template <int Rank>
bool same_shape(const std::vector<Index>& stored, const Shape<Rank>& shape) {
  if (Rank == 1 && stored.empty()) return shape[0] == 1;
  return std::equal(stored.begin(), stored.end(), shape.extents, shape.extents + Rank);
}

/// As rows without gaps, as few as possible.
template <class T, int Rank>
View<T, 2> rows_of(View<T, Rank> values) {
  return values.contiguous() ? View<T, 2>(values.data(), Shape<2>{1, values.size()}) : values.flat();
}

/// Follows the JSON parser through a header and stops it at whatever is not in the format: a hostile header builds no
/// tree.
class HeaderParser {
 public:
  HeaderParser(Metadata& metadata, StoredTensors& tensors) : metadata_(metadata), tensors_(tensors) {}

  /// What is wrong; empty if nothing is.
  std::string parse(const std::string& header) {
    if (header.empty() || header.front() != '{') return "the header does not begin with '{'";
    if (header.find('\0') != std::string::npos) return "the header contains a NUL byte";  // where the parser would stop
    if (!nlohmann::json::sax_parse(header, this) && problem_.empty()) problem_ = "the header is malformed";
    return problem_;
  }

  bool start_object(std::size_t) {
    if (place_ == Place::outside) return go(Place::file);
    if (place_ != Place::file || awaited_ == Value::none) return unexpected("an object");
    return go(awaited_ == Value::metadata ? Place::metadata : Place::tensor);
  }
  bool key(std::string& name) {
    if (place_ == Place::file) {
      name_ = name;
      awaited_ = name == "__metadata__" ? Value::metadata : Value::tensor;
      if (awaited_ == Value::metadata)
        return !std::exchange(metadata_seen_, true) || problem("__metadata__ occurs twice");
      const auto [place, is_new] = tensors_.try_emplace(name);
      tensor_ = &place->second;
      dtype_seen_ = shape_seen_ = offsets_seen_ = false;
      return is_new || problem(here(), " occurs twice");
    }
    if (place_ == Place::metadata) {
      name_ = name;
      awaited_ = Value::text;
      return !metadata_.contains(name) || problem("the key ", in_quotes(name), " of __metadata__ occurs twice");
    }
    const auto field = [&](Value value, bool& seen) {
      awaited_ = value;
      return !std::exchange(seen, true) || problem(here(), " has two fields ", in_quotes(name));
    };
    if (name == "dtype") return field(Value::dtype, dtype_seen_);
    if (name == "shape") return field(Value::shape, shape_seen_);
    if (name == "data_offsets") return field(Value::offsets, offsets_seen_);
    return problem(here(), " has an unknown field ", in_quotes(name));
  }
  bool end_object() {
    if (place_ == Place::tensor) {
      const char* const missing = !dtype_seen_     ? "dtype"
                                  : !shape_seen_   ? "shape"
                                  : !offsets_seen_ ? "data_offsets"
                                                   : nullptr;
      if (missing) return problem(here(), " has no ", missing);
    }
    return go(place_ == Place::file ? Place::outside : Place::file);
  }
  bool start_array(std::size_t) {
    if (place_ != Place::tensor || (awaited_ != Value::shape && awaited_ != Value::offsets))
      return unexpected("an array");
    place_ = Place::array;
    offsets_.clear();
    return true;
  }
  bool end_array() {
    if (awaited_ == Value::offsets) {
      if (offsets_.size() != 2) return problem(here(), " has ", offsets_.size(), " data_offsets, not 2");
      tensor_->begin = offsets_[0], tensor_->end = offsets_[1];
    }
    return go(Place::tensor);
  }
  bool string(std::string& text) {
    if (place_ == Place::metadata && awaited_ == Value::text) {
      metadata_.emplace(name_, std::move(text));
      return go(Place::metadata);
    }
    if (place_ != Place::tensor || awaited_ != Value::dtype) return unexpected("a string");
    const Dtype* const dtype = find_dtype(text);
    if (!dtype) return problem(here(), " is of the unknown dtype ", in_quotes(text));
    tensor_->dtype = dtype->name;
    return go(Place::tensor);
  }
  bool number_unsigned(std::uint64_t number) {
    if (place_ != Place::array) return unexpected("a number");
    if (awaited_ == Value::offsets) {
      if (offsets_.size() < 3) offsets_.push_back(number);
      return true;
    }
    if (!std::in_range<Index>(number)) return problem(here(), " has an extent of ", number);
    tensor_->shape.push_back(static_cast<Index>(number));
    return true;
  }
  bool number_integer(std::int64_t) { return unexpected("a negative number"); }
  bool number_float(double, const std::string&) { return unexpected("a number that is not a 64-bit integer"); }
  bool boolean(bool) { return unexpected("a boolean"); }
  bool null() { return unexpected("null"); }
  bool binary(std::vector<std::uint8_t>&) { return unexpected("binary data"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) {
    return problem("the header is not valid JSON at byte ", position);
  }

 private:
  enum class Place { outside, file, metadata, tensor, array };
  enum class Value { none, metadata, tensor, text, dtype, shape, offsets };

  std::string here() const { return tensor_text(name_); }
  bool go(Place place) {
    place_ = place;
    awaited_ = Value::none;
    return true;
  }
  template <class... Parts>
  bool problem(const Parts&... parts) {
    problem_ = concatenate(parts...);
    return false;
  }
  bool unexpected(const char* what) {
    if (name_.empty()) return problem("the header has ", what, " where none may be");
    return problem("the header has ", what, " where none may be, in or after ", in_quotes(name_));
  }

  Metadata& metadata_;
  StoredTensors& tensors_;
  std::string problem_, name_;
  StoredTensor* tensor_ = nullptr;
  std::vector<std::uint64_t> offsets_;
  Place place_ = Place::outside;
  Value awaited_ = Value::none;
  bool metadata_seen_ = false, dtype_seen_ = false, shape_seen_ = false, offsets_seen_ = false;
};

/// Number of elements of a tensor whose byte_count() there is.
inline Index count_of(const StoredTensor& tensor) {
  Index count = 1;
  for (const Index extent : tensor.shape) count *= extent;
  return count;
}

/// Number of bytes of a tensor, or nothing if its shape overflows or does not fill whole bytes.
inline std::optional<std::uint64_t> byte_count(const StoredTensor& tensor) {
  constexpr Index limit = (std::numeric_limits<Index>::max)() / 64;
  Index count = 1;
  for (const Index extent : tensor.shape) {  // as if zeros were ones: strides are products too
    if ((std::max)(extent, Index{1}) > limit / count) return {};
    count *= (std::max)(extent, Index{1});
  }
  if (std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end()) return 0;
  const std::uint64_t bits = static_cast<std::uint64_t>(count) * find_dtype(tensor.dtype)->bits;
  return bits % 8 == 0 ? std::optional(bits / 8) : std::nullopt;
}

}  // namespace detail

}  // namespace eigenformer
