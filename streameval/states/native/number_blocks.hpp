// The sums of a block of numbers, by operations on floats none of which rounds.
//
// A number is three limbs of 23 bits, each a multiple of its unit and at most half the unit above.
// A product of two is below 2^45 of their units, so three in each of 128 events are below 2^53.
#pragma once

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__GNUC__)
#define STREAMEVAL_INLINE inline __attribute__((always_inline))
#else
#define STREAMEVAL_INLINE inline
#endif

namespace streameval {

// Numbers that are summed side by side; one where the compiler has no such type, or is not to.
#if defined(__GNUC__) && !defined(STREAMEVAL_NO_INT128)
typedef double TwoNumbers __attribute__((vector_size(16)));
#if defined(__x86_64__)
#define STREAMEVAL_AVX2
typedef double FourNumbers __attribute__((vector_size(32)));
#endif
#else
typedef double TwoNumbers;
#endif

struct NumberBlock {
    // Floats of the old coprocessor have more bits, and are counted one by one.
    static constexpr bool possible = FLT_EVAL_METHOD == 0;
    // So many events at a time, and at least, since others cost as much as that.
    static constexpr std::size_t most = 512, few = 64;
    static constexpr int limb_bits = 23;

    // In units of 2^unit: sums of the limbs, the upper one first, and in units of 2^(2 unit) of
    // the products, by the places of both added up.
    int unit;
    std::int64_t truths[3], given[3], under[3];
    std::int64_t truth_squares[5], products[5], given_squares[5];

    // Sets the unit by the largest number, but not finer than 2^least; false where that is not
    // below 2^most_bits.
    bool measure(const double* truth, const double* prediction, std::size_t size, int most_bits, int least) {
        constexpr std::size_t lanes = sizeof(TwoNumbers) / sizeof(double);
        TwoNumbers high = TwoNumbers(), low = TwoNumbers();
        std::size_t n = 0;
        for (; n + lanes <= size; n += lanes) {
            TwoNumbers y, p;
            load(truth + n, &y);
            load(prediction + n, &p);
            high = y > high ? y : high;
            high = p > high ? p : high;
            low = y < low ? y : low;
            low = p < low ? p : low;
        }
        double ends[2 * lanes], largest = 0.0;
        std::memcpy(ends, &high, sizeof high);
        std::memcpy(ends + lanes, &low, sizeof low);
        for (double end : ends) largest = std::max(largest, std::fabs(end));
        for (; n < size; ++n)
            largest = std::max(largest, std::max(std::fabs(truth[n]), std::fabs(prediction[n])));
        int top;
        std::frexp(largest, &top);
        unit = std::max(std::min(top, most_bits) - 3 * limb_bits + 1, least);
        return top <= most_bits;
    }

    template <typename Lanes>
    static STREAMEVAL_INLINE void load(const double* from, Lanes* numbers) {
        std::memcpy(numbers, from, sizeof *numbers);
    }
    // Leaves of a number 0 where its limbs are all of it.
    template <typename Lanes>
    static STREAMEVAL_INLINE void split(Lanes* number, const double* rounding, Lanes* limbs) {
        for (int k = 0; k < 3; ++k) {
            limbs[k] = (*number + rounding[k]) - rounding[k];
            *number -= limbs[k];
        }
    }
    // Added to a number and taken away they round it to a limb.
    void rounding(double* numbers) const {
        for (int k = 0; k < 3; ++k) numbers[k] = std::ldexp(1.5, 52 + unit + (2 - k) * limb_bits);
    }
    bool fits(double number) const {
        double numbers[3], limbs[3];
        rounding(numbers);
        if (!(std::fabs(number) < std::ldexp(1.0, unit + 3 * limb_bits - 1))) return false;
        split(&number, numbers, limbs);
        return number == 0.0;
    }

    // False where a number does not fit.
    template <typename Lanes>
    STREAMEVAL_INLINE bool sum(const double* truth, const double* prediction) {
        constexpr std::size_t lanes = sizeof(Lanes) / sizeof(double), step = 128 * lanes;
        double numbers[3];
        rounding(numbers);
        std::memset(truths, 0, sizeof *this - offsetof(NumberBlock, truths));
        for (std::size_t at = 0; at < most; at += step) {
            Lanes y[3][128], p[3][128];
            Lanes left = Lanes(), sums[3][3] = {};
            const Lanes zero = Lanes(), ones = zero + 1.0;
            for (std::size_t n = 0; n < 128; ++n) {
                Lanes one[3], other[3];
                Lanes a, b;
                load(truth + at + n * lanes, &a);
                load(prediction + at + n * lanes, &b);
                const auto low = a > b;
                split(&a, numbers, one);
                split(&b, numbers, other);
                left = a == zero ? left : ones;
                left = b == zero ? left : ones;
                for (int k = 0; k < 3; ++k) {
                    y[k][n] = one[k];
                    p[k][n] = other[k];
                    sums[0][k] += one[k];
                    sums[1][k] += other[k];
                    sums[2][k] += low ? one[k] - other[k] : zero;
                }
            }
            double any[lanes];
            std::memcpy(any, &left, sizeof left);
            for (double one : any)
                if (one != 0.0) return false;
            for (int k = 0; k < 3; ++k) {
                take(sums[0][k], unit + (2 - k) * limb_bits, truths + k);
                take(sums[1][k], unit + (2 - k) * limb_bits, given + k);
                take(sums[2][k], unit + (2 - k) * limb_bits, under + k);
            }
            multiply(y, y, truth_squares);
            multiply(y, p, products);
            multiply(p, p, given_squares);
        }
        return true;
    }

  private:
    template <typename Lanes>
    STREAMEVAL_INLINE void multiply(const Lanes (&a)[3][128], const Lanes (&b)[3][128], std::int64_t* found) const {
        Lanes sums[5] = {};
        for (std::size_t n = 0; n < 128; ++n) {
            sums[0] += a[0][n] * b[0][n];
            sums[1] += a[0][n] * b[1][n] + a[1][n] * b[0][n];
            sums[2] += (a[0][n] * b[2][n] + a[2][n] * b[0][n]) + a[1][n] * b[1][n];
            sums[3] += a[1][n] * b[2][n] + a[2][n] * b[1][n];
            sums[4] += a[2][n] * b[2][n];
        }
        for (int k = 0; k < 5; ++k) take(sums[k], 2 * unit + (4 - k) * limb_bits, found + k);
    }
    template <typename Lanes>
    static STREAMEVAL_INLINE void take(const Lanes& sums, int exponent, std::int64_t* found) {
        double parts[sizeof(Lanes) / sizeof(double)];
        std::memcpy(parts, &sums, sizeof sums);
        const double scale = std::ldexp(1.0, -exponent);
        for (double part : parts) *found += static_cast<std::int64_t>(part * scale);
    }
};

#if defined(STREAMEVAL_AVX2)
__attribute__((target("avx2"))) inline bool sum_by_four(
    const double* truth, const double* prediction, NumberBlock* block
) {
    return block->sum<FourNumbers>(truth, prediction);
}
#endif

inline bool sum_of_block(const double* truth, const double* prediction, NumberBlock* block) {
#if defined(STREAMEVAL_AVX2)
    if (__builtin_cpu_supports("avx2")) return sum_by_four(truth, prediction, block);
#endif
    return block->sum<TwoNumbers>(truth, prediction);
}

}  // namespace streameval
