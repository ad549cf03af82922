// Unsigned sums of products: of 64-bit integers in 128 and 192 bits, of 128-bit ones in 256.
//
// W2 (twice the won pairs) passes 64 bits at about 4e9 balanced events, so it
// lives in two limbs; the sums of DeLong's variance, at most 4 P N^2, in three.
// Only additions, subtractions and products by 64 bits are needed; compilers
// without a 128-bit integer (MSVC) get the schoolbook product, and no 256 bits.
#pragma once

#include <cmath>
#include <cstdint>

#if defined(__SIZEOF_INT128__) && !defined(STREAMEVAL_NO_INT128)
#define STREAMEVAL_INT128
#endif

namespace streameval {

#if defined(STREAMEVAL_INT128)
__extension__ typedef unsigned __int128 Wide;
#endif

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
#if defined(STREAMEVAL_INT128)
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

#if defined(STREAMEVAL_INT128)
inline Wide wide(const U128& value) { return static_cast<Wide>(value.high) << 64 | value.low; }

inline int length(Wide value) {
    const std::uint64_t high = static_cast<std::uint64_t>(value >> 64);
    return high ? 128 - __builtin_clzll(high)
                : value ? 64 - __builtin_clzll(static_cast<std::uint64_t>(value)) : 0;
}

struct U256 {
    Wide high = 0;
    Wide low = 0;

    U256& operator+=(const U256& other) {
        low += other.low;
        high += other.high + (low < other.low ? 1u : 0u);
        return *this;
    }
    U256& operator-=(const U256& other) {
        high -= other.high + (low < other.low ? 1u : 0u);
        low -= other.low;
        return *this;
    }
    // Shifts by 0 to 255 bits.
    U256& operator<<=(int bits) {
        if (bits >= 128) {
            high = low << (bits - 128);
            low = 0;
        } else if (bits > 0) {
            high = high << bits | low >> (128 - bits);
            low <<= bits;
        }
        return *this;
    }
    U256& operator>>=(int bits) {
        if (bits >= 128) {
            low = high >> (bits - 128);
            high = 0;
        } else if (bits > 0) {
            low = low >> bits | high << (128 - bits);
            high >>= bits;
        }
        return *this;
    }
    friend U256 operator-(U256 a, const U256& b) { return a -= b; }
    friend U256 operator<<(U256 a, int bits) { return a <<= bits; }
    friend U256 operator&(const U256& a, const U256& b) { return {a.high & b.high, a.low & b.low}; }
    friend bool operator>=(const U256& a, const U256& b) {
        return a.high != b.high ? a.high > b.high : a.low >= b.low;
    }
    friend bool operator==(const U256& a, const U256& b) {
        return a.high == b.high && a.low == b.low;
    }
};

inline U256 product(Wide a, Wide b) {
    const Wide mask = ~std::uint64_t{0};
    const Wide a_low = a & mask, a_high = a >> 64, b_low = b & mask, b_high = b >> 64;
    const Wide low = a_low * b_low;
    const Wide middle = a_high * b_low + (low >> 64);
    const Wide other = a_low * b_high + (middle & mask);
    return {a_high * b_high + (middle >> 64) + (other >> 64), other << 64 | (low & mask)};
}

inline int length(const U256& value) { return value.high ? 128 + length(value.high) : length(value.low); }

// value * 2^exponent rounded once, to nearest and even, unless it is below the normal range.
inline double scaled(Wide value, int exponent) {
    return std::ldexp(static_cast<double>(value), exponent);
}
inline double scaled(U256 value, int exponent) {
    const int over = length(value) - 128;
    if (over <= 0) return scaled(value.low, exponent);
    // A double takes 53 of the upper 128 bits; the last of them stands for all that follow.
    const Wide rest = over == 128 ? value.low : value.low << (128 - over);
    value >>= over;
    return scaled(value.low | (rest != 0 ? 1u : 0u), exponent + over);
}

// a / b rounded once, to nearest and even, as Python divides integers; both below
// 2^127 (2^255), b above 0, the result not below the normal range.
inline double quotient(Wide a, Wide b) {
    if (a == 0) return 0.0;
    const int above = 127 - length(a), under = 127 - length(b);
    a <<= above;
    b <<= under;
    // Of a 2^63 / b: by the upper 64 bits of b it is at most 3 too large.
    std::uint64_t digits = static_cast<std::uint64_t>(a / (b >> 63));
    const U256 whole = U256{0, a} << 63;
    U256 taken = product(static_cast<Wide>(digits), b);
    while (!(whole >= taken)) {
        --digits;
        taken -= U256{0, b};
    }
    // The last digit stands for all that follow: a double takes 53 of the 63 or 64.
    digits |= whole == taken ? 0u : 1u;
    return std::ldexp(static_cast<double>(digits), under - above - 63);
}

// Digit by digit: neither fits a double.
inline double quotient(U256 a, U256 b) {
    if ((a.high | a.low) == 0) return 0.0;
    const int exponent = length(a) - length(b);
    if (exponent >= 0)
        b <<= exponent;
    else
        a <<= -exponent;
    // 1/2 < a / b < 2: of 56 digits, one of them before the point, 55 or 56 count.
    std::uint64_t digits = 0;
    for (int n = 0; n < 56; ++n) {
        const bool fits = a >= b;
        const Wide mask = 0 - static_cast<Wide>(fits);
        digits = digits << 1 | (fits ? 1u : 0u);
        a = (a - (b & U256{mask, mask})) << 1;
    }
    digits |= (a.high | a.low) == 0 ? 0u : 1u;
    return std::ldexp(static_cast<double>(digits), exponent - 55);
}
#endif

}  // namespace streameval
