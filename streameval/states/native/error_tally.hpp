// Sums of the numbers and the predictions of events of whole weight, in exact integers.
//
// A number is held in units of 2^-80. What has another unit, or is 2^30 and more, is counted in
// Python; below 2^33 events no sum of squares then passes 255 bits.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "exact128.hpp"
#include "number_blocks.hpp"

namespace streameval {

constexpr int NUMBER_UNIT = 80;
constexpr int NUMBER_BITS = 30;

// False where the number is not held exactly in those units; it is finite.
inline bool number_units(double value, SignedWide* units) {
    std::uint64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    const int exponent = static_cast<int>(bits >> 52 & 0x7ff);
    std::uint64_t mantissa = bits & ((std::uint64_t{1} << 52) - 1);
    *units = 0;
    if (exponent == 0) return mantissa == 0;  // not of the smallest numbers
    mantissa |= std::uint64_t{1} << 52;
    const int shift = exponent - 1075 + NUMBER_UNIT;
    if (shift > NUMBER_UNIT + NUMBER_BITS - 53) return false;
    if (shift < 0 && trailing_zeros(mantissa) < -shift) return false;
    const Wide size = shift >= 0 ? Wide(mantissa) << shift : Wide(mantissa >> -shift);
    *units = bits >> 63 ? -static_cast<SignedWide>(size) : static_cast<SignedWide>(size);
    return true;
}

// Integers of two's complement, in which a sum of terms of either sign is exact.
inline U256 negative(const U256& value) { return U256{} - value; }
inline bool is_negative(const U256& value) { return (value.high >> 127) != 0; }
inline U256 absolute(const U256& value) { return is_negative(value) ? negative(value) : value; }

inline U256 extended(SignedWide value) {
    return {static_cast<Wide>(value >> 127), static_cast<Wide>(value)};
}
inline U256 signed_product(SignedWide a, SignedWide b) {
    U256 result = product(static_cast<Wide>(a), static_cast<Wide>(b));
    result.high -= static_cast<Wide>((a >> 127) & b) + static_cast<Wide>((b >> 127) & a);
    return result;
}

// The sums that are counted; `by` events more, or fewer.
struct ErrorTally {
    // Of all that was added and removed since the last time that it was handed over.
    static constexpr std::int64_t most_moved = std::int64_t(1) << 33;

    std::int64_t weight = 0, moved = 0;
    U256 truths, given, truth_squares, products, given_squares, under;

    void count(SignedWide truth, SignedWide prediction, std::int64_t by) {
        moved += by < 0 ? -by : by;
        weight += by;
        const SignedWide error = truth - prediction;
        change(&truths, extended(truth), by);
        change(&given, extended(prediction), by);
        change(&truth_squares, signed_product(truth, truth), by);
        change(&products, signed_product(truth, prediction), by);
        change(&given_squares, signed_product(prediction, prediction), by);
        // Without a branch, of which every other one would be mispredicted.
        change(&under, extended(error & -SignedWide(error > 0)), by);
    }
    // An event of a batch; false where it is not held exactly, or is one too many.
    bool count_one(double truth, double prediction, std::int64_t by) {
        SignedWide one, other;
        const bool held = by < most_moved / 2 - moved && number_units(truth, &one) &&
                          number_units(prediction, &other);
        if (held) count(one, other, by);
        return held;
    }
    // Adds the places of events that are not counted to `rest`; `by` is NULL for weights of 1.
    void count_many(
        const double* truth, const double* prediction, const std::int64_t* by, std::size_t size,
        std::vector<std::size_t>* rest
    ) {
        std::size_t at = 0;
        const auto alone = [&](std::size_t n) {
            if (!count_one(truth[n], prediction[n], by ? by[n] : 1)) rest->push_back(n);
        };
        while (NumberBlock::possible && !by && size - at >= NumberBlock::few && moved < most_moved / 4) {
            const std::size_t events = std::min(NumberBlock::most, size - at);
            NumberBlock block;
            const bool near = block.measure(truth + at, prediction + at, events, NUMBER_BITS, -NUMBER_UNIT);
            std::int64_t counted = static_cast<std::int64_t>(events);
            if (!near || events < NumberBlock::most || !sum_of_block(truth + at, prediction + at, &block)) {
                // Zeros replace the events that do not fit.
                double copies[2][NumberBlock::most] = {};
                for (std::size_t n = 0; n < events; ++n) {
                    if (block.fits(truth[at + n]) && block.fits(prediction[at + n])) {
                        copies[0][n] = truth[at + n];
                        copies[1][n] = prediction[at + n];
                    } else {
                        --counted;
                        alone(at + n);
                    }
                }
                sum_of_block(copies[0], copies[1], &block);
            }
            add(block, counted);
            at += events;
        }
        for (; at < size; ++at) alone(at);
    }
    void subtract(const ErrorTally& less) {
        weight -= less.weight;
        truths -= less.truths;
        given -= less.given;
        truth_squares -= less.truth_squares;
        given_squares -= less.given_squares;
        products -= less.products;
        under -= less.under;
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
    double mean_absolute_error() const {
        U256 sum = (under << 1) - truths;
        sum += given;
        return mean(sum, NUMBER_UNIT);
    }
    double mean_squared_error() const { return mean(squared_errors(), 2 * NUMBER_UNIT); }
    double root_mean_squared_error() const { return std::sqrt(mean_squared_error()); }
    double r2() const {
        if (weight <= 0) return NAN;
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
    void add(const NumberBlock& block, std::int64_t counted) {
        weight += counted;
        moved += counted;
        const int first = block.unit + NUMBER_UNIT;
        horner<3>(block.truths, first, &truths);
        horner<3>(block.given, first, &given);
        horner<3>(block.under, first, &under);
        horner<5>(block.truth_squares, 2 * first, &truth_squares);
        horner<5>(block.products, 2 * first, &products);
        horner<5>(block.given_squares, 2 * first, &given_squares);
    }
    // *sum += the limbs, of which the last is in units of 2^shift.
    template <int size>
    static void horner(const std::int64_t* limbs, int shift, U256* sum) {
        U256 value;
        for (int k = 0; k < size; ++k) {
            value <<= NumberBlock::limb_bits;
            value += extended(limbs[k]);
        }
        *sum += value << shift;
    }
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
        // The first 126 bits of a number above 0, and the power of two that they count.
        int exponent() const {
            const int n = top();
            return 64 * n + 64 - leading_zeros(limb[n]) - 126;
        }
        Wide upper() const {
            const int n = top(), zeros = leading_zeros(limb[n]);
            const Wide first = Wide(limb[n]) << 64 | (n > 0 ? limb[n - 1] : 0);
            const std::uint64_t next = n > 1 ? limb[n - 2] : 0;
            return (first << zeros | (zeros ? next >> (64 - zeros) : 0)) >> 2;
        }

        static std::uint64_t low(Wide value) { return static_cast<std::uint64_t>(value); }
        static std::uint64_t high(Wide value) { return static_cast<std::uint64_t>(value >> 64); }
    };

    // sum += by * term, of two's complement.
    static void change(U256* sum, const U256& term, std::int64_t by) {
        if (by == 1) {
            *sum += term;
        } else if (by == -1) {
            *sum -= term;
        } else {
            const std::uint64_t size = static_cast<std::uint64_t>(by < 0 ? -by : by);
            U256 more = product(term.low, size);
            more.high += term.high * size;
            if (by < 0)
                *sum -= more;
            else
                *sum += more;
        }
    }
    // (over 2^a) / (under 2^b), each the first 126 bits of a number whose others are not known;
    // rounded as the numbers' own quotient, or nan where the others decide.
    static double ratio(Wide over, int a, Wide under, int b) {
        // By the upper 64 bits of `under`: at most 4 too large, or 2 too small.
        const std::uint64_t digits =
            static_cast<std::uint64_t>((over << 1) / static_cast<std::uint64_t>(under >> 62));
        const std::uint64_t rest = digits & 1023;
        if (rest > 8 && rest < 1016 && (rest < 504 || rest > 520) && digits >> 62 != 0)
            return static_cast<double>(digits) * power(a - b - 63);
        const double least = quotient(over, under + 1), most = quotient(over + 1, under);
        return least == most ? std::ldexp(least, a - b) : NAN;
    }
    // sum / weight, in units of 2^-unit.
    double mean(U256 sum, int unit) const {
        if (weight <= 0) return NAN;
        const int zeros = leading_zeros(static_cast<std::uint64_t>(weight));
        const std::uint64_t by = static_cast<std::uint64_t>(weight) << zeros;
        const int digits = length(sum), shift = 127 - digits;
        if (digits == 0) return 0.0;
        Wide upper = sum.low, rest = 0;
        if (shift < 0) {
            rest = sum.low << (128 + shift);
            sum >>= -shift;
            upper = sum.low;
        } else {
            upper <<= shift;
        }
        // 127 bits by 64: at least 62, of which the last but one stands for all that follow.
        const std::uint64_t whole = static_cast<std::uint64_t>(upper / by);
        rest |= upper - product(whole, by);
        const std::uint64_t kept = whole >> 1 | (whole & 1) | (rest != 0 ? 1u : 0u);
        return static_cast<double>(static_cast<std::int64_t>(kept)) * power(zeros + 1 - shift - unit);
    }
    // 2^exponent, of a normal number.
    static double power(int exponent) {
        const std::uint64_t bits = static_cast<std::uint64_t>(exponent + 1023) << 52;
        double result;
        std::memcpy(&result, &bits, sizeof result);
        return result;
    }
};

}  // namespace streameval
