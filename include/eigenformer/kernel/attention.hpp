// Scaled dot-product attention (Vaswani et al. 2017, equation 1): softmax(score(scale·q·kᵀ))·v for every head, with an
// online softmax over blocks of keys (Milakov and Gimelshein 2018; Dao et al. 2022): the scores of all queries against
// all keys never exist together, and blocks of keys that the mask hides are skipped.
//
// The bit guarantee: blocks of keys start at multiples of key_block, and a key that is masked contributes exactly 0,
// whatever it is, so the result for a query does not depend on other queries, on other sequences, or on how many masked
// keys there are.
#pragma once

#include "eigenformer/kernel/attention_backward.hpp"
#include "eigenformer/kernel/attention_forward.hpp"
