// Integers of 128 and 256 bits, and their correctly rounded quotients.
//
// W2 (twice the won pairs) passes 64 bits at about 4e9 balanced events, so it is a Wide; the sums
// of DeLong's variance, at most 4 P N^2, are U256. A Wide is the compiler's 128-bit integer or,
// where there is none (Microsoft's) or STREAMEVAL_NO_INT128 is set, an Int128.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#if defined(_MSC_VER)
#include <intrin.h>
#endif

#if defined(__SIZEOF_INT128__) && !defined(STREAMEVAL_NO_INT128)
#define STREAMEVAL_INT128
#endif

namespace streameval {

// Of a number above 0.
inline int leading_zeros(std::uint64_t value) {
#if defined(_MSC_VER)
    unsigned long at;
    _BitScanReverse64(&at, value);
    return 63 - static_cast<int>(at);
#else
    return __builtin_clzll(value);
#endif
}
inline int trailing_zeros(std::uint64_t value) {
#if defined(_MSC_VER)
    unsigned long at;
    _BitScanForward64(&at, value);
    return static_cast<int>(at);
#else
    return __builtin_ctzll(value);
#endif
}

#if defined(STREAMEVAL_INT128)
__extension__ typedef unsigned __int128 Wide;
__extension__ typedef __int128 SignedWide;
#else
// The operators of a compiler's 128-bit integer, in two limbs; division bit by bit.
template <bool is_signed>
class Int128 {
  public:
    Int128() = default;
    template <typename T, typename = std::enable_if_t<std::is_integral<T>::value>>
    Int128(T value)
        : high_(std::is_signed<T>::value && value < T(0) ? ~std::uint64_t{0} : 0),
          low_(static_cast<std::uint64_t>(value)) {}
    explicit Int128(Int128<!is_signed> other) : Int128(other.limb(1), other.limb(0)) {}
    // Towards 0.
    explicit Int128(double value) {
        const double size = std::trunc(std::fabs(value)), upper = std::floor(size * 0x1p-64);
        high_ = static_cast<std::uint64_t>(upper);
        low_ = static_cast<std::uint64_t>(size - upper * 0x1p64);
        if (value < 0) *this = -*this;
    }

    std::uint64_t limb(int n) const { return n ? high_ : low_; }
    template <typename T, typename = std::enable_if_t<std::is_integral<T>::value>>
    explicit operator T() const {
        return std::is_same<T, bool>::value ? (high_ | low_) != 0 : static_cast<T>(low_);
    }
    // Rounded once, to nearest and even: the last of 64 digits stands for all that follow.
    explicit operator double() const {
        if (negative()) return -static_cast<double>(-*this);
        if (high_ == 0) return static_cast<double>(low_);
        const int shift = 64 - leading_zeros(high_);
        const Int128 kept = Int128<is_signed>(Int128<false>(*this) >> shift);
        const bool rest = (kept << shift) != *this;
        return std::ldexp(static_cast<double>(kept.low_ | (rest ? 1u : 0u)), shift);
    }

    Int128 operator-() const { return Int128(0) - *this; }
    friend Int128 operator+(Int128 a, Int128 b) {
        const std::uint64_t low = a.low_ + b.low_;
        return {a.high_ + b.high_ + (low < a.low_ ? 1u : 0u), low};
    }
    friend Int128 operator-(Int128 a, Int128 b) {
        return {a.high_ - b.high_ - (a.low_ < b.low_ ? 1u : 0u), a.low_ - b.low_};
    }
    friend Int128 operator*(Int128 a, Int128 b) {
        const std::uint64_t mask = 0xffffffffu, a_low = a.low_ & mask, a_high = a.low_ >> 32;
        const std::uint64_t b_low = b.low_ & mask, b_high = b.low_ >> 32, low = a_low * b_low;
        const std::uint64_t middle = a_high * b_low + (low >> 32);
        const std::uint64_t other = a_low * b_high + (middle & mask);
        const std::uint64_t high = a_high * b_high + (middle >> 32) + (other >> 32);
        return {high + a.high_ * b.low_ + a.low_ * b.high_, other << 32 | (low & mask)};
    }
    // Of numbers that are not negative.
    friend Int128 operator/(Int128 a, Int128 b) {
        Int128<false> whole = 0, rest = 0;
        for (int n = 127; n >= 0; --n) {
            const bool carry = rest.limb(1) >> 63;
            rest = (rest << 1) | (Int128<false>(a) >> n & 1);
            const bool fits = carry || rest >= Int128<false>(b);
            if (fits) rest -= Int128<false>(b);
            whole = (whole << 1) | fits;
        }
        return Int128(whole.limb(1), whole.limb(0));
    }
    friend Int128 operator&(Int128 a, Int128 b) { return {a.high_ & b.high_, a.low_ & b.low_}; }
    friend Int128 operator|(Int128 a, Int128 b) { return {a.high_ | b.high_, a.low_ | b.low_}; }
    template <typename T>
    friend Int128 operator<<(Int128 a, T bits) {
        if (bits == 0) return a;
        if (bits >= 64) return {a.low_ << (bits - 64), 0};
        return {a.high_ << bits | a.low_ >> (64 - bits), a.low_ << bits};
    }
    template <typename T>
    friend Int128 operator>>(Int128 a, T bits) {
        const std::uint64_t sign = a.negative() ? ~std::uint64_t{0} : 0;
        if (bits == 0) return a;
        if (bits == 64) return {sign, a.high_};
        if (bits > 64) return {sign, a.high_ >> (bits - 64) | sign << (128 - bits)};
        return {a.high_ >> bits | sign << (64 - bits), a.low_ >> bits | a.high_ << (64 - bits)};
    }
    friend bool operator==(Int128 a, Int128 b) { return a.high_ == b.high_ && a.low_ == b.low_; }
    friend bool operator<(Int128 a, Int128 b) {
        if (a.negative() != b.negative()) return a.negative();
        return a.high_ != b.high_ ? a.high_ < b.high_ : a.low_ < b.low_;
    }
    friend bool operator!=(Int128 a, Int128 b) { return !(a == b); }
    friend bool operator>(Int128 a, Int128 b) { return b < a; }
    friend bool operator<=(Int128 a, Int128 b) { return !(b < a); }
    friend bool operator>=(Int128 a, Int128 b) { return !(a < b); }
    Int128& operator+=(Int128 b) { return *this = *this + b; }
    Int128& operator-=(Int128 b) { return *this = *this - b; }
    Int128& operator*=(Int128 b) { return *this = *this * b; }
    Int128& operator|=(Int128 b) { return *this = *this | b; }
    template <typename T>
    Int128& operator<<=(T bits) { return *this = *this << bits; }
    template <typename T>
    Int128& operator>>=(T bits) { return *this = *this >> bits; }

  private:
    friend class Int128<!is_signed>;
    Int128(std::uint64_t high, std::uint64_t low) : high_(high), low_(low) {}
    bool negative() const { return is_signed && high_ >> 63; }

    std::uint64_t high_ = 0, low_ = 0;
};
typedef Int128<false> Wide;
typedef Int128<true> SignedWide;
#endif

inline Wide product(std::uint64_t a, std::uint64_t b) { return static_cast<Wide>(a) * b; }

inline int length(Wide value) {
    const std::uint64_t high = static_cast<std::uint64_t>(value >> 64);
    const std::uint64_t low = static_cast<std::uint64_t>(value);
    return high ? 128 - leading_zeros(high) : low ? 64 - leading_zeros(low) : 0;
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

inline U256 product(Wide a, std::uint64_t b) { return product(a, static_cast<Wide>(b)); }

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
    const int above = 127 - length(a), under = 127 - length(b), some = above + 63 - under;
    if (under >= 63 && some >= 0) {
        a <<= some;
        std::uint64_t digits = static_cast<std::uint64_t>(a / static_cast<std::uint64_t>(b));
        digits |= product(digits, static_cast<std::uint64_t>(b)) == a ? 0u : 1u;
        return std::ldexp(static_cast<double>(digits), -some);
    }
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

// scaled / (count * 2^64). False, and nothing done, where a number is out of range.
inline bool mean_of_scaled(Wide scaled, std::int64_t count, double* mean) {
    if (scaled >> 127 || count <= 0) return false;
    *mean = quotient(scaled, static_cast<Wide>(count)) * 0x1p-64;
    return true;
}

// over / (under * 2^60); both above 0 and below 2^127.
inline double mean_of_units(Wide over, std::uint64_t under) {
    return quotient(over, static_cast<Wide>(under)) * 0x1p-60;
}

}  // namespace streameval
