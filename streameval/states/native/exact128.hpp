// Unsigned 128-bit sums of 64-bit products.
//
// W2 (twice the won pairs) passes 64 bits at about 4e9 balanced events, so it
// lives in two limbs. Only additions, subtractions and 64 x 64 products are
// needed; compilers without a 128-bit integer (MSVC) get the schoolbook product.
#pragma once

#include <cstdint>

namespace streameval {

struct U128 {
    std::uint64_t high = 0;
    std::uint64_t low = 0;

    U128& operator+=(const U128& other) {
        low += other.low;
        high += other.high + (low < other.low ? 1u : 0u);
        return *this;
    }
    U128& operator-=(const U128& other) {
        high -= other.high + (low < other.low ? 1u : 0u);
        low -= other.low;
        return *this;
    }
    bool operator==(const U128& other) const { return high == other.high && low == other.low; }
};

inline U128 product(std::uint64_t a, std::uint64_t b) {
#if defined(__SIZEOF_INT128__) && !defined(STREAMEVAL_NO_INT128)
    __extension__ typedef unsigned __int128 Wide;
    const Wide wide = static_cast<Wide>(a) * b;
    return {static_cast<std::uint64_t>(wide >> 64), static_cast<std::uint64_t>(wide)};
#else
    const std::uint64_t mask = 0xffffffffu;
    const std::uint64_t a_low = a & mask, a_high = a >> 32;
    const std::uint64_t b_low = b & mask, b_high = b >> 32;
    const std::uint64_t low = a_low * b_low;
    const std::uint64_t middle = a_high * b_low + (low >> 32);
    const std::uint64_t other = a_low * b_high + (middle & mask);
    return {a_high * b_high + (middle >> 32) + (other >> 32), (other << 32) | (low & mask)};
#endif
}

}  // namespace streameval
