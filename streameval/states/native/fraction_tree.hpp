// FractionTree: a WideTree of weights that are doubles.
//
// A double is a whole number of 53 bits times a power of two. So the weights of a stream are
// whole in units of the least power among them, and W2 of those integers is exact: it does
// not depend on the order of the events, nor on where they were counted, and needs no sum
// that has to be derived anew after an event. The weight *at* a score is what the written form
// holds, a double: the sum in the order of arrival, rounded after each event.
//
// A finer weight than all before shifts the tree, which a stream of n random weights does
// about log n times. Weights whose digits span more than 126 bits, the sum of all
// included, do not fit: the caller then goes on with the portable index.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "exact128.hpp"
#include "tree_builder.hpp"

namespace streameval {

// Writes the groups, ascending, with weights times 2^exponent, each rounded once.
inline void read_scaled(const WideTree& tree, double* scores, double* positives, double* negatives,
                        int exponent) {
    tree.each([&](double score, Wide negative, Wide positive) {
        *scores++ = score;
        *positives++ = scaled(positive, exponent);
        *negatives++ = scaled(negative, exponent);
    });
}

// The same with the low and the high 64 bits of each weight, in twice as many places.
inline void read_limbs(const WideTree& tree, double* scores, std::uint64_t* positives,
                       std::uint64_t* negatives) {
    tree.each([&](double score, Wide negative, Wide positive) {
        *scores++ = score;
        for (int bits = 0; bits < 128; bits += 64) {
            *positives++ = static_cast<std::uint64_t>(positive >> bits);
            *negatives++ = static_cast<std::uint64_t>(negative >> bits);
        }
    });
}

class FractionTree {
  public:
    void copy_from(const FractionTree& other) {
        tree_.copy_from(other.tree_);
        exponent_ = other.exponent_;
    }

    // Rounded once from the exact sum.
    double negatives() const { return scaled(tree_.negatives(), exponent_); }
    double positives() const { return scaled(tree_.positives(), exponent_); }
    double twice_u() const { return scaled(tree_.twice_u(), 2 * exponent_); }
    double auc() const { return tree_.auc(); }
    std::size_t distinct() const { return tree_.distinct(); }
    std::size_t bytes() const { return tree_.bytes() + sizeof(exponent_); }
    const char* broken() const { return tree_.broken(); }

    // Adds to the weight of one class at a score, in doubles. False, and nothing changed, where
    // it does not fit. `key` is finite and not -0.0, `weight` is positive and finite.
    bool insert(bool positive, double key, double weight) {
        const double more[2] = {positive ? 0.0 : weight, positive ? weight : 0.0};
        if (!make_room(digits_of(weight).exponent, more)) return false;
        tree_.insert_gain(positive, key, [&](Wide here) {
            return here == 0 ? fixed(weight) : fixed(scaled(here, exponent_) + weight) - here;
        });
        return true;
    }

    // insert() of the weights of `count` groups, which ascend; of equal scores the first is first.
    bool insert_many(const double* scores, const double* positives, const double* negatives,
                     std::size_t count) {
        const double* const of[2] = {negatives, positives};
        int least = kNoDigits;
        double more[2] = {0.0, 0.0};
        for (int side = 0; side < 2; ++side)
            for (std::size_t n = 0; n < count; ++n) {
                more[side] += of[side][n];
                if (of[side][n] > 0.0) least = std::min(least, digits_of(of[side][n]).exponent);
            }
        if (count == 0) return true;
        // Inserting m weights one by one beats rewriting a tree of n scores up to this n/m.
        const bool is_few = count * 16 < tree_.distinct();
        std::vector<Group> sums;
        if (!is_few) {
            sums.reserve(tree_.distinct() + count);
            std::size_t next = 0;
            const auto add_until = [&](double score, bool with) {
                for (; next < count && (scores[next] < score || (with && scores[next] == score)); ++next) {
                    if (sums.empty() || sums.back().score != scores[next])
                        sums.push_back({scores[next], {0.0, 0.0}});
                    for (int side = 0; side < 2; ++side) sums.back().of[side] += of[side][next];
                }
            };
            tree_.each([&](double score, Wide low, Wide high) {
                add_until(score, false);
                sums.push_back({score, {scaled(low, exponent_), scaled(high, exponent_)}});
                add_until(score, true);
            });
            add_until(HUGE_VAL, false);
        }
        if (!make_room(least, more)) return false;
        if (is_few) {
            for (std::size_t n = 0; n < count; ++n)
                for (int side = 0; side < 2; ++side)
                    if (of[side][n] > 0.0) insert(side == 1, scores[n], of[side][n]);
            return true;
        }
        BasicTreeBuilder<Wide> built;
        for (const Group& group : sums) built.add(group.score, fixed(group.of[0]), fixed(group.of[1]));
        built.finish(tree_);
        return true;
    }

    // Writes the groups, ascending; each array has distinct() places.
    void read_groups(double* scores, double* positives, double* negatives) const {
        read_scaled(tree_, scores, positives, negatives, exponent_);
    }

  private:
    static constexpr int kNoDigits = 1 << 20;
    // Of the 127 bits of a class one is left for sums at a score that were rounded up.
    static constexpr int kMostBits = 126;

    WideTree tree_;
    int exponent_ = kNoDigits;  // of the unit, 2^exponent

    struct Group {
        double score;
        double of[2];  // weights of the negatives and of the positives
    };
    struct Digits {
        std::uint64_t digits;
        int exponent;
    };
    // weight = digits * 2^exponent with odd digits, for any positive finite weight.
    static Digits digits_of(double weight) {
        int exponent;
        const double half = std::frexp(weight, &exponent);  // in [1/2, 1)
        const std::uint64_t digits = static_cast<std::uint64_t>(half * 0x1p53);
        const int zeros = trailing_zeros(digits);
        return {digits >> zeros, exponent - 53 + zeros};
    }
    // The weight in units, of which it is a multiple.
    Wide fixed(double weight) const {
        if (weight == 0.0) return 0;
        const Digits parts = digits_of(weight);
        return static_cast<Wide>(parts.digits) << (parts.exponent - exponent_);
    }

    // Whether weights that are multiples of 2^least fit beside those counted, in a class as
    // much as `more`; makes the unit as fine. The sum at a score is a multiple of the unit too:
    // rounding only drops digits. It may round up, to twice the gain at most.
    bool make_room(int least, const double* more) {
        const int exponent = std::min(least, exponent_);
        for (int side = 0; side < 2; ++side) {
            const double most = scaled(side ? tree_.positives() : tree_.negatives(), exponent_) +
                                2.0 * more[side];
            if (!(most <= std::ldexp(1.0, kMostBits + exponent))) return false;
        }
        if (exponent < exponent_) {
            if (exponent_ != kNoDigits) tree_.shift_left(exponent_ - exponent);
            exponent_ = exponent;
        }
        return true;
    }
};

}  // namespace streameval
