#if __has_include(<optional>)
#include <optional>
#endif
#if __has_include(<string_view>)
#include <string_view>
#endif
#if __has_include(<cmath>)
#include <cmath>
#endif
#if __has_include(<algorithm>)
#include <algorithm>
#endif
#if __has_include(<compare>)
#include <compare>
#endif
#if __has_include(<cstddef>)
#include <cstddef>
#endif
#if __has_include(<cstdint>)
#include <cstdint>
#endif
#if __has_include(<cstring>)
#include <cstring>
#endif
#if __has_include(<functional>)
#include <functional>
#endif
#if __has_include(<utility>)
#include <utility>
#endif
#if __has_include(<vector>)
#include <vector>
#endif
#if __has_include(<sanitizer/asan_interface.h>)
#include <sanitizer/asan_interface.h>
#endif
#if __has_include(<new>)
#include <new>
#endif
#if __has_include(<string>)
#include <string>
#endif
#if __has_include(<type_traits>)
#include <type_traits>
#endif
#if __has_include(<xmmintrin.h>)
#include <xmmintrin.h>
#endif
#if __has_include(<Eigen/Core>)
#include <Eigen/Core>
#endif
#if __has_include(<charconv>)
#include <charconv>
#endif
#if __has_include(<initializer_list>)
#include <initializer_list>
#endif
#if __has_include(<stdexcept>)
#include <stdexcept>
#endif
#if __has_include(<array>)
#include <array>
#endif
#if __has_include(<bit>)
#include <bit>
#endif
#if __has_include(<cerrno>)
#include <cerrno>
#endif
#if __has_include(<filesystem>)
#include <filesystem>
#endif
#if __has_include(<fstream>)
#include <fstream>
#endif
#if __has_include(<ios>)
#include <ios>
#endif
#if __has_include(<system_error>)
#include <system_error>
#endif
#if __has_include(<numbers>)
#include <numbers>
#endif
#if __has_include(<concepts>)
#include <concepts>
#endif
#if __has_include(<limits>)
#include <limits>
#endif
#if __has_include(<cstdlib>)
#include <cstdlib>
#endif
#if __has_include(<sys/mman.h>)
#include <sys/mman.h>
#endif
#if __has_include(<Eigen/ThreadPool>)
#include <Eigen/ThreadPool>
#endif
#if __has_include(<unsupported/Eigen/CXX11/ThreadPool>)
#include <unsupported/Eigen/CXX11/ThreadPool>
#endif
#if __has_include(<atomic>)
#include <atomic>
#endif
#if __has_include(<exception>)
#include <exception>
#endif
#if __has_include(<memory>)
#include <memory>
#endif
#if __has_include(<mutex>)
#include <mutex>
#endif
#if __has_include(<thread>)
#include <thread>
#endif
#if __has_include(<iterator>)
#include <iterator>
#endif
#if __has_include(<ranges>)
#include <ranges>
#endif
#if __has_include(<span>)
#include <span>
#endif
#if __has_include(<tuple>)
#include <tuple>
#endif
#if __has_include(<variant>)
#include <variant>
#endif
#if __has_include(<numeric>)
#include <numeric>
#endif
#if __has_include(<map>)
#include <map>
#endif
#if __has_include(<nlohmann/json.hpp>)
#include <nlohmann/json.hpp>
#endif
#if __has_include(<set>)
#include <set>
#endif
#if __has_include(<istream>)
#include <istream>
#endif
#if __has_include(<streambuf>)
#include <streambuf>
#endif
#if __has_include(<ostream>)
#include <ostream>
#endif
#if __has_include(<random>)
#include <random>
#endif
#if __has_include(<fcntl.h>)
#include <fcntl.h>
#endif
#if __has_include(<sys/file.h>)
#include <sys/file.h>
#endif
#if __has_include(<sys/stat.h>)
#include <sys/stat.h>
#endif
#if __has_include(<unistd.h>)
#include <unistd.h>
#endif
#if __has_include(<cassert>)
#include <cassert>
#endif
#if __has_include(<immintrin.h>)
#include <immintrin.h>
#endif
#if __has_include(<emmintrin.h>)
#include <emmintrin.h>
#endif
#if __has_include(<unordered_map>)
#include <unordered_map>
#endif
#if __has_include(<sentencepiece_processor.h>)
#include <sentencepiece_processor.h>
#endif
#if __has_include(<queue>)
#include <queue>
#endif
#if __has_include(<unicode/bytestream.h>)
#include <unicode/bytestream.h>
#endif
#if __has_include(<unicode/normalizer2.h>)
#include <unicode/normalizer2.h>
#endif
#if __has_include(<unicode/regex.h>)
#include <unicode/regex.h>
#endif
#if __has_include(<unicode/stringpiece.h>)
#include <unicode/stringpiece.h>
#endif
#if __has_include(<unicode/unistr.h>)
#include <unicode/unistr.h>
#endif
#if __has_include(<unicode/utext.h>)
#include <unicode/utext.h>
#endif
#if __has_include(<unicode/utypes.h>)
#include <unicode/utypes.h>
#endif
#include "/tmp/w/format/main/tests/headers/foreign_macros.hpp"
#include <eigenformer/block/config.hpp>
#include <eigenformer/block/decoder_block.hpp>
#include <eigenformer/block/deep_norm.hpp>
#include <eigenformer/block/encoder_block.hpp>
#include <eigenformer/block/gated_residual.hpp>
#include <eigenformer/block/parallel_block.hpp>
#include <eigenformer/block/post_norm.hpp>
#include <eigenformer/block/pre_norm.hpp>
#include <eigenformer/block/residual.hpp>
#include <eigenformer/block/sandwich.hpp>
#include <eigenformer/core/arena.hpp>
#include <eigenformer/core/config.hpp>
#include <eigenformer/core/context.hpp>
#include <eigenformer/core/denormals.hpp>
#include <eigenformer/core/eigen.hpp>
#include <eigenformer/core/error.hpp>
#include <eigenformer/core/format.hpp>
#include <eigenformer/core/gradient.hpp>
#include <eigenformer/core/half.hpp>
#include <eigenformer/core/initialize.hpp>
#include <eigenformer/core/language.hpp>
#include <eigenformer/core/open_file.hpp>
#include <eigenformer/core/random.hpp>
#include <eigenformer/core/scalar.hpp>
#include <eigenformer/core/settings.hpp>
#include <eigenformer/core/shape.hpp>
#include <eigenformer/core/tensor.hpp>
#include <eigenformer/core/threads.hpp>
#include <eigenformer/core/view.hpp>
#include <eigenformer/core/visit.hpp>
#include <eigenformer/decode/beam.hpp>
#include <eigenformer/decode/decoding.hpp>
#include <eigenformer/decode/draft.hpp>
#include <eigenformer/decode/generate.hpp>
#include <eigenformer/decode/processors.hpp>
#include <eigenformer/decode/reader.hpp>
#include <eigenformer/decode/rules.hpp>
#include <eigenformer/decode/sampler.hpp>
#include <eigenformer/decode/score.hpp>
#include <eigenformer/decode/sequences.hpp>
#include <eigenformer/eigenformer.hpp>
#include <eigenformer/io/checkpoint.hpp>
#include <eigenformer/io/config.hpp>
#include <eigenformer/io/gguf.hpp>
#include <eigenformer/io/gguf_blocks.hpp>
#include <eigenformer/io/mapped_file.hpp>
#include <eigenformer/io/replace_file.hpp>
#include <eigenformer/io/safetensors.hpp>
#include <eigenformer/io/safetensors_header.hpp>
#include <eigenformer/io/slots.hpp>
#include <eigenformer/kernel/activation.hpp>
#include <eigenformer/kernel/adam.hpp>
#include <eigenformer/kernel/affine.hpp>
#include <eigenformer/kernel/angle_recurrence.hpp>
#include <eigenformer/kernel/attention.hpp>
#include <eigenformer/kernel/attention_backward.hpp>
#include <eigenformer/kernel/attention_forward.hpp>
#include <eigenformer/kernel/attention_inputs.hpp>
#include <eigenformer/kernel/attention_products.hpp>
#include <eigenformer/kernel/dot.hpp>
#include <eigenformer/kernel/dropout.hpp>
#include <eigenformer/kernel/embedding.hpp>
#include <eigenformer/kernel/epilogue.hpp>
#include <eigenformer/kernel/feed_forward.hpp>
#include <eigenformer/kernel/gemm.hpp>
#include <eigenformer/kernel/kv_block.hpp>
#include <eigenformer/kernel/loss.hpp>
#include <eigenformer/kernel/mask.hpp>
#include <eigenformer/kernel/norm.hpp>
#include <eigenformer/kernel/online_softmax.hpp>
#include <eigenformer/kernel/operand.hpp>
#include <eigenformer/kernel/positions.hpp>
#include <eigenformer/kernel/quantize.hpp>
#include <eigenformer/kernel/relative.hpp>
#include <eigenformer/kernel/rotary.hpp>
#include <eigenformer/kernel/row.hpp>
#include <eigenformer/kernel/score.hpp>
#include <eigenformer/kernel/sgd.hpp>
#include <eigenformer/kernel/simd.hpp>
#include <eigenformer/kernel/sinusoid.hpp>
#include <eigenformer/kernel/softmax.hpp>
#include <eigenformer/kernel/top.hpp>
#include <eigenformer/kernel/word_product.hpp>
#include <eigenformer/layer/attention/attend.hpp>
#include <eigenformer/layer/attention/attention.hpp>
#include <eigenformer/layer/attention/config.hpp>
#include <eigenformer/layer/attention/heads.hpp>
#include <eigenformer/layer/attention/kv_cache.hpp>
#include <eigenformer/layer/attention/projections.hpp>
#include <eigenformer/layer/attention/relative_attention.hpp>
#include <eigenformer/layer/attention/score.hpp>
#include <eigenformer/layer/attention/transformer_xl_attention.hpp>
#include <eigenformer/layer/embedding.hpp>
#include <eigenformer/layer/ffn/gated_mlp.hpp>
#include <eigenformer/layer/ffn/mlp.hpp>
#include <eigenformer/layer/linear.hpp>
#include <eigenformer/layer/norm/dynamic_tanh.hpp>
#include <eigenformer/layer/norm/layer_norm.hpp>
#include <eigenformer/layer/norm/rms_norm.hpp>
#include <eigenformer/layer/norm/scale_norm.hpp>
#include <eigenformer/layer/position/learned.hpp>
#include <eigenformer/layer/position/none.hpp>
#include <eigenformer/layer/position/relative.hpp>
#include <eigenformer/layer/position/rotary.hpp>
#include <eigenformer/layer/position/sinusoidal.hpp>
#include <eigenformer/model/bert.hpp>
#include <eigenformer/model/decoder_state.hpp>
#include <eigenformer/model/decoders.hpp>
#include <eigenformer/model/encoder_decoder.hpp>
#include <eigenformer/model/heads.hpp>
#include <eigenformer/model/initialize.hpp>
#include <eigenformer/model/language_model.hpp>
#include <eigenformer/model/marian.hpp>
#include <eigenformer/model/next_tokens.hpp>
#include <eigenformer/model/paper.hpp>
#include <eigenformer/model/stack.hpp>
#include <eigenformer/model/t5.hpp>
#include <eigenformer/op/activation.hpp>
#include <eigenformer/op/affine.hpp>
#include <eigenformer/op/attention.hpp>
#include <eigenformer/op/cross_entropy.hpp>
#include <eigenformer/op/dropout.hpp>
#include <eigenformer/op/embedding.hpp>
#include <eigenformer/op/feed_forward.hpp>
#include <eigenformer/op/linear.hpp>
#include <eigenformer/op/norm.hpp>
#include <eigenformer/op/pool.hpp>
#include <eigenformer/op/relative.hpp>
#include <eigenformer/op/rotary.hpp>
#include <eigenformer/op/softmax.hpp>
#include <eigenformer/op/weight.hpp>
#include <eigenformer/pretrained/bart.hpp>
#include <eigenformer/pretrained/bert.hpp>
#include <eigenformer/pretrained/checkpoint_files.hpp>
#include <eigenformer/pretrained/config_file.hpp>
#include <eigenformer/pretrained/families.hpp>
#include <eigenformer/pretrained/family_list.hpp>
#include <eigenformer/pretrained/gguf.hpp>
#include <eigenformer/pretrained/gguf_families.hpp>
#include <eigenformer/pretrained/gpt2.hpp>
#include <eigenformer/pretrained/hugging_face.hpp>
#include <eigenformer/pretrained/llama.hpp>
#include <eigenformer/pretrained/llama2c.hpp>
#include <eigenformer/pretrained/name_table.hpp>
#include <eigenformer/pretrained/packed_file.hpp>
#include <eigenformer/pretrained/pretrained.hpp>
#include <eigenformer/pretrained/saved_folder.hpp>
#include <eigenformer/pretrained/t5.hpp>
#include <eigenformer/text/added_pieces.hpp>
#include <eigenformer/text/byte_alphabet.hpp>
#include <eigenformer/text/byte_pair_files.hpp>
#include <eigenformer/text/byte_pair_tokenizer.hpp>
#include <eigenformer/text/gguf_tokenizer.hpp>
#include <eigenformer/text/json_value.hpp>
#include <eigenformer/text/llama2c_tokenizer.hpp>
#include <eigenformer/text/load_tokenizer.hpp>
#include <eigenformer/text/marian_tokenizer.hpp>
#include <eigenformer/text/merge.hpp>
#include <eigenformer/text/scored_tokenizer.hpp>
#include <eigenformer/text/sentencepiece_tokenizer.hpp>
#include <eigenformer/text/split.hpp>
#include <eigenformer/text/tokenizer.hpp>
#include <eigenformer/text/tokenizer_settings.hpp>
#include <eigenformer/text/utf8.hpp>
#include <eigenformer/text/vocabulary.hpp>
#include <eigenformer/train/adam.hpp>
#include <eigenformer/train/clip.hpp>
#include <eigenformer/train/evaluate.hpp>
#include <eigenformer/train/optimiser.hpp>
#include <eigenformer/train/schedule.hpp>
#include <eigenformer/train/sgd.hpp>
#include <eigenformer/train/trainer.hpp>
#include <eigenformer/version.hpp>
