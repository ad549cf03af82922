// Sums of the numbers and the predictions of events of whole weight, in exact integers.
//
// A number is held in units of 2^-80. What has another unit, or is 2^30 and more, is counted in
// Python; below 2^33 events no sum of squares then passes 255 bits.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "exact128.hpp"

namespace streameval {

constexpr int NUMBER_UNIT = 80;
constexpr int NUMBER_BITS = 30;

// False where the number is not held exactly in those units.
inline bool number_units(double value, SignedWide* units) {
    int exponent;
    const std::int64_t mantissa = static_cast<std::int64_t>(std::ldexp(std::frexp(value, &exponent), 53));
    if (mantissa == 0) {
        *units = 0;
        return true;
    }
    if (exponent > NUMBER_BITS) return false;
    const int shift = exponent - 53 + NUMBER_UNIT;
    if (shift >= 0) {
        *units = SignedWide(mantissa) * (SignedWide(1) << shift);
        return true;
    }
    const std::uint64_t size = static_cast<std::uint64_t>(mantissa < 0 ? -mantissa : mantissa);
    if (trailing_zeros(size) < -shift) return false;
    *units = SignedWide(mantissa) / (SignedWide(1) << -shift);
    return true;
}

// Integers of two's complement, in which a sum of terms of either sign is exact.
inline U256 negative(const U256& value) { return U256{} - value; }
inline bool is_negative(const U256& value) { return (value.high >> 127) != 0; }
inline U256 absolute(const U256& value) { return is_negative(value) ? negative(value) : value; }
inline Wide absolute(SignedWide value) { return static_cast<Wide>(value < 0 ? -value : value); }

inline U256 times(const U256& size, std::uint64_t by) {
    if (by == 1) return size;
    U256 result = product(size.low, by);
    result.high += size.high * by;
    return result;
}

// The sums that are counted; `by` events more, or fewer.
struct ErrorTally {
    // Of all that was added and removed since the last time that it was handed over.
    static constexpr std::int64_t most_moved = std::int64_t(1) << 33;

    std::int64_t weight = 0, moved = 0;
    U256 truths, given, truth_squares, given_squares, products, absolutes;

    void count(SignedWide truth, SignedWide prediction, std::int64_t by) {
        const std::uint64_t size = static_cast<std::uint64_t>(by < 0 ? -by : by);
        const Wide one = absolute(truth), other = absolute(prediction);
        moved += static_cast<std::int64_t>(size);
        weight += by;
        change(&truths, U256{0, one}, size, (truth < 0) != (by < 0));
        change(&given, U256{0, other}, size, (prediction < 0) != (by < 0));
        change(&truth_squares, product(one, one), size, by < 0);
        change(&given_squares, product(other, other), size, by < 0);
        change(&products, product(one, other), size, ((truth < 0) != (prediction < 0)) != (by < 0));
        change(&absolutes, U256{0, absolute(truth - prediction)}, size, by < 0);
    }
    void clear() { *this = ErrorTally(); }
    void add(const ErrorTally& more) {
        weight += more.weight;
        truths += more.truths;
        given += more.given;
        truth_squares += more.truth_squares;
        given_squares += more.given_squares;
        products += more.products;
        absolutes += more.absolutes;
    }
    U256 squared_errors() const {
        U256 sum = truth_squares;
        sum += given_squares;
        return sum - (products << 1);
    }

    // Metrics as Python computes them, with the same bits; nan where it has to.

    double mean_error() const {
        const U256 sum = given - truths;
        const double size = mean(absolute(sum), NUMBER_UNIT);
        return is_negative(sum) ? -size : size;
    }
    double mean_absolute_error() const { return mean(absolutes, NUMBER_UNIT); }
    double mean_squared_error() const { return mean(squared_errors(), 2 * NUMBER_UNIT); }
    double r2() const {
        if (weight <= 1) return NAN;
        // n Σe² and n Σy² - (Σy)², below 2^290.
        const Long under = Long(truth_squares, weight) - Long::square(absolute(truths));
        const Long errors(squared_errors(), weight);
        if (under.is_zero()) return NAN;
        const bool below = errors.above(under);
        const Long over = below ? errors - under : under - errors;
        if (over.is_zero()) return 0.0;
        const double size = ratio(over.upper(), over.exponent(), under.upper(), under.exponent());
        return below ? -size : size;
    }

  private:
    // An integer from 0 on, of 384 bits.
    struct Long {
        std::uint64_t limb[6] = {0, 0, 0, 0, 0, 0};

        Long() = default;
        Long(const U256& value, std::int64_t by) {
            const std::uint64_t parts[4] = {low(value.low), high(value.low), low(value.high), high(value.high)};
            std::uint64_t carry = 0;
            for (int n = 0; n < 4; ++n) {
                const Wide term = product(parts[n], static_cast<std::uint64_t>(by)) + carry;
                limb[n] = low(term);
                carry = high(term);
            }
            limb[4] = carry;
        }
        // Of a number below 2^192.
        static Long square(const U256& value) {
            const std::uint64_t parts[3] = {low(value.low), high(value.low), low(value.high)};
            Long result;
            for (int n = 0; n < 3; ++n) {
                std::uint64_t carry = 0;
                for (int m = 0; m < 3; ++m) {
                    const Wide term = product(parts[n], parts[m]) + result.limb[n + m] + carry;
                    result.limb[n + m] = low(term);
                    carry = high(term);
                }
                result.limb[n + 3] = carry;
            }
            return result;
        }
        friend Long operator-(const Long& a, const Long& b) {
            Long result;
            std::uint64_t borrow = 0;
            for (int n = 0; n < 6; ++n) {
                const std::uint64_t taken = a.limb[n] - b.limb[n];
                result.limb[n] = taken - borrow;
                borrow = (a.limb[n] < b.limb[n] ? 1u : 0u) + (taken < borrow ? 1u : 0u);
            }
            return result;
        }
        bool is_zero() const {
            std::uint64_t any = 0;
            for (std::uint64_t one : limb) any |= one;
            return any == 0;
        }
        bool above(const Long& other) const {
            for (int n = 5; n >= 0; --n)
                if (limb[n] != other.limb[n]) return limb[n] > other.limb[n];
            return false;
        }
        int top() const {
            int n = 5;
            while (n > 0 && limb[n] == 0) --n;
            return n;
        }
        // The first 126 bits, and the power of two that they count.
        int exponent() const {
            const int n = top();
            return limb[n] == 0 ? 0 : 64 * n + 64 - leading_zeros(limb[n]) - 126;
        }
        Wide upper() const {
            const int shift = exponent();
            Wide result = 0;
            for (int n = 5; n >= 0; --n) {
                const int at = 64 * n - shift;
                if (at >= 128 || limb[n] == 0) continue;
                const Wide one = limb[n];
                result |= at >= 0 ? one << at : at > -64 ? one >> -at : Wide(0);
            }
            return result;
        }

        static std::uint64_t low(Wide value) { return static_cast<std::uint64_t>(value); }
        static std::uint64_t high(Wide value) { return static_cast<std::uint64_t>(value >> 64); }
    };

    static void change(U256* sum, const U256& size, std::uint64_t by, bool less) {
        if (less)
            *sum -= times(size, by);
        else
            *sum += times(size, by);
    }
    // (over 2^a) / (under 2^b), each the first bits of a number whose others are not known; rounded
    // as the numbers' own quotient, or nan where the others decide.
    static double ratio(Wide over, int a, Wide under, int b) {
        const double least = quotient(over, under + 1), most = quotient(over + 1, under);
        return least == most ? std::ldexp(least, a - b) : NAN;
    }
    // sum / weight, in units of 2^-unit.
    double mean(U256 sum, int unit) const {
        if (weight <= 0) return NAN;
        const Wide under = static_cast<Wide>(weight);
        const int over = length(sum) - 126;
        if (over <= 0) return std::ldexp(quotient(sum.low, under), -unit);
        sum >>= over;
        const double least = quotient(sum.low, under), most = quotient(sum.low + 1, under);
        return least == most ? std::ldexp(least, over - unit) : NAN;
    }
};

}  // namespace streameval
