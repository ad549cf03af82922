// Unsigned sums of products of 64-bit integers, in 128 and 192 bits.
//
// W2 (twice the won pairs) passes 64 bits at about 4e9 balanced events, so it
// lives in two limbs; the sums of DeLong's variance, at most 4 P N^2, in three.
// Only additions, subtractions and products by 64 bits are needed; compilers
// without a 128-bit integer (MSVC) get the schoolbook product.
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

struct U192 {
    std::uint64_t high = 0;
    U128 rest;

    U192& operator+=(const U192& other) {
        high += other.high;
        return *this += other.rest;
    }
    U192& operator+=(const U128& other) {
        rest += other;
        high += rest.high < other.high || (rest.high == other.high && rest.low < other.low) ? 1u : 0u;
        return *this;
    }
    U192& operator-=(const U192& other) {
        const U128 before = rest;
        rest -= other.rest;
        high -= other.high;
        high -= before.high < rest.high || (before.high == rest.high && before.low < rest.low) ? 1u : 0u;
        return *this;
    }
    bool operator==(const U192& other) const { return high == other.high && rest == other.rest; }
};

// The caller knows that the product stays below 2^192.
inline U192 product(const U128& a, std::uint64_t b) {
    const U128 upper = product(a.high, b);
    U192 wide{upper.high, {upper.low, 0}};
    wide += product(a.low, b);
    return wide;
}

}  // namespace streameval
