// The cells of a confusion and their sums over the classes, in integers of C++.
//
// Every number that LabelSums computes in Python ints, bit for bit. A Count has 64 bits for a
// total weight below 2^62, or 128 for one below 2^125; the squares and products of weights have
// twice as many. Then no number here can pass its range.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

#include "exact128.hpp"

namespace streameval {

inline U256 long_of(Wide value) { return {0, value}; }
inline U256 long_of(const U256& value) { return value; }

// 2^64 part / whole, rounded down; part <= whole, and whole is above 0 and below 2^127.
inline Wide ratio_of(std::uint64_t part, std::uint64_t whole) {
    return (static_cast<Wide>(part) << 64) / whole;
}
inline Wide ratio_of(Wide part, Wide whole) {
    const int shift = 127 - length(whole);
    part <<= shift;
    whole <<= shift;
    // By the upper 64 bits of `whole` it is at most 3 too large.
    Wide digits = (part << 1) / (whole >> 63);
    const U256 exact = U256{0, part} << 64;
    for (U256 taken = product(digits, whole); !(exact >= taken); taken -= U256{0, whole}) digits -= 1;
    return digits;
}

// A ratio of integers, rounded once; nan where `under` is 0.
inline double share(Wide over, Wide under) {
    if (under == 0) return std::numeric_limits<double>::quiet_NaN();
    if (((over | under) >> 53) != 0) return quotient(over, under);
    return static_cast<double>(static_cast<std::uint64_t>(over)) /
           static_cast<double>(static_cast<std::uint64_t>(under));
}
inline double signed_share(SignedWide over, SignedWide under) {
    return over < 0 ? -share(static_cast<Wide>(-over), static_cast<Wide>(under))
                    : share(static_cast<Wide>(over), static_cast<Wide>(under));
}

// The weight of the events of class `row` predicted as class `column`.
struct Cell {
    std::size_t row, column;
    Wide weight;
};

struct ClassWeights {
    Wide correct, truth, predicted;
};

// What LabelSums has; the sums of ratios as of the last recompute().
struct Sums {
    Wide total, hits;
    std::int64_t active, with_true, with_predicted;
    Wide precision, recall, f1;
    U256 true_predicted, true_squared, predicted_squared;
};

template <class Count>
class ConfusionCells {
  public:
    typedef decltype(product(Count(), Count())) Square;

    Count total = 0, hits = 0;

    ConfusionCells() = default;
    template <class Other>
    explicit ConfusionCells(const ConfusionCells<Other>& other) {
        for (const Cell& cell : other.cells())
            change(cell.row, cell.column, static_cast<Count>(cell.weight), false);
    }

    static Count most_total() { return (Count(1) << (sizeof(Count) == 8 ? 62 : 125)) - 1; }

    Count cell(std::size_t i, std::size_t j) const {
        if (i < few && j < few) return near_[i * few + j];
        const auto found = far_.find(code(i, j));
        return found == far_.end() ? Count(0) : found->second;
    }

    // The cells that are not 0, in no order.
    std::vector<Cell> cells() const {
        std::vector<Cell> all;
        for (std::size_t at = 0; at < few * few; ++at) {
            if (near_[at] != 0) all.push_back({at / few, at % few, near_[at]});
        }
        for (const auto& [at, weight] : far_) {
            if (weight != 0) all.push_back({std::size_t(at >> 32), std::size_t(at & 0xffffffff), weight});
        }
        return all;
    }

    std::size_t size() const { return classes_.size(); }
    ClassWeights of_class(std::size_t k) const {
        const Class& one = classes_.at(k);
        return {one.correct, one.truth, one.predicted};
    }

    Sums sums() const {
        return {total, hits, active_, with_true_, with_predicted_, precision_, recall_, f1_,
                long_of(true_predicted_), long_of(true_squared_), long_of(predicted_squared_)};
    }

    void clear() { *this = ConfusionCells(); }

    // Adds a weight of less than 64 bits, or takes it away where it is negative.
    bool add(std::size_t i, std::size_t j, std::int64_t weight) {
        const std::uint64_t size = static_cast<std::uint64_t>(weight);
        return change(i, j, weight < 0 ? 0 - size : size, weight < 0);
    }

    // Adds the weight of events of class i predicted as class j, or takes it away. False, and
    // nothing is changed, where the total would pass the most or the cell go below 0.
    bool change(std::size_t i, std::size_t j, Count weight, bool less) {
        // What can fail for want of memory comes before any change.
        grow(std::max(i, j) + 1);
        const bool is_near = i < few && j < few;
        Count& held = is_near ? near_[i * few + j] : far_[code(i, j)];
        if (weight > (less ? held : most_total() - total)) return false;
        Class& row = classes_[i];
        Class& column = classes_[j];
        const Count t = row.truth, p = column.predicted;
        const bool row_was = is_active(row), column_was = is_active(column);
        // From here all is modulo the integers' range; the true results are in it.
        const Count more = less ? Count(0) - weight : weight;
        row.truth += more;
        column.predicted += more;
        if (i == j) {
            row.correct += more;
            hits += more;
        }
        // (t + w)^2 - t^2 = w(t + (t + w)), and so on.
        shift(true_squared_, weight, t + row.truth, less);
        shift(predicted_squared_, weight, p + column.predicted, less);
        shift(true_predicted_, weight,
              i == j ? t + column.predicted : row.predicted + column.truth, less);
        with_true_ += int(row.truth != 0) - int(t != 0);
        with_predicted_ += int(column.predicted != 0) - int(p != 0);
        active_ += int(is_active(row)) - int(row_was);
        if (i != j) active_ += int(is_active(column)) - int(column_was);
        total += more;
        held += more;
        if (held == 0 && !is_near) far_.erase(code(i, j));
        if (watched_) {
            watched_ = false;
            renew(row);
            if (i != j) renew(column);
        } else {
            note(i, row);
            note(j, column);
        }
        return true;
    }

    // Brings the sums of ratios up to date.
    void recompute() {
        for (const std::size_t k : waiting_) {
            classes_[k].behind = false;
            renew(classes_[k]);
        }
        waiting_.clear();
        watched_ = true;
    }

    std::size_t bytes() const {
        // A node of the table: a pointer, the cell, and the allocator's overhead.
        return classes_.capacity() * sizeof(Class) + waiting_.capacity() * sizeof(std::size_t) +
               far_.bucket_count() * sizeof(void*) + far_.size() * (24 + sizeof(Count));
    }

    // Metrics, nan where they have no value; the squares of a total fit only where Count has
    // 64 bits.

    double accuracy() const { return share(hits, total); }
    double precision_macro() { return mean(precision_, with_predicted_); }
    double recall_macro() { return mean(recall_, with_true_); }
    double f1_macro() { return mean(f1_, active_); }
    double precision_of(std::size_t k) const { return share(classes_[k].correct, classes_[k].predicted); }
    double recall_of(std::size_t k) const { return share(classes_[k].correct, classes_[k].truth); }
    double f1_of(std::size_t k) const {
        return share(2 * Wide(classes_[k].correct), Wide(classes_[k].truth) + classes_[k].predicted);
    }
    double cohen_kappa() const { return signed_share(covariance(), rest_of_square(true_predicted_)); }
    double matthews_corrcoef() const {
        const SignedWide over = covariance();
        const SignedWide spread_true = rest_of_square(true_squared_);
        const SignedWide spread_predicted = rest_of_square(predicted_squared_);
        if (spread_true == spread_predicted) return signed_share(over, spread_true);
        const double value = std::sqrt(signed_share(over, spread_true) * signed_share(over, spread_predicted));
        return over < 0 ? -value : value;
    }

  private:
    // True, predicted and correct weight of one class, and its three ratios.
    struct Class {
        Count truth = 0, predicted = 0, correct = 0;
        Wide precision = 0, recall = 0, f1 = 0;
        bool behind = false;  // the ratios wait for recompute()
    };

    // The cells of the first classes have places of their own, without a look-up.
    static constexpr std::size_t few = 4;

    std::int64_t active_ = 0, with_true_ = 0, with_predicted_ = 0;
    Wide precision_ = 0, recall_ = 0, f1_ = 0;
    Square true_predicted_{}, true_squared_{}, predicted_squared_{};
    Count near_[few * few] = {};
    std::unordered_map<std::uint64_t, Count> far_;
    std::vector<Class> classes_;
    std::vector<std::size_t> waiting_;
    // Set by a read: the next event then recomputes its ratios at once.
    bool watched_ = false;

    static std::uint64_t code(std::size_t i, std::size_t j) {
        return std::uint64_t(i) << 32 | std::uint64_t(j);
    }

    void grow(std::size_t count) {
        if (count <= classes_.size()) return;
        // First the room for every class to wait, so that note() cannot fail half way.
        // Doubled, because labels are added one by one and reserve() allocates the exact size.
        if (count > waiting_.capacity()) waiting_.reserve(std::max(count, 2 * waiting_.capacity()));
        classes_.resize(count);
    }

    void note(std::size_t k, Class& one) {
        if (!one.behind) {
            one.behind = true;
            waiting_.push_back(k);
        }
    }

    static bool is_active(const Class& one) { return one.truth != 0 || one.predicted != 0; }

    static void shift(Square& sum, Count weight, Count by, bool less) {
        if (less) {
            sum -= product(weight, by);
        } else {
            sum += product(weight, by);
        }
    }

    static Wide ratio(Count part, Count all) { return part == 0 ? Wide(0) : ratio_of(part, all); }

    void renew(Class& one) {
        const Wide new_precision = ratio(one.correct, one.predicted);
        const Wide new_recall = ratio(one.correct, one.truth);
        const Wide new_f1 = ratio(2 * one.correct, one.truth + one.predicted);
        precision_ += new_precision - one.precision;
        recall_ += new_recall - one.recall;
        f1_ += new_f1 - one.f1;
        one.precision = new_precision;
        one.recall = new_recall;
        one.f1 = new_f1;
    }

    double mean(const Wide& scaled, std::int64_t count) {
        if (count == 0) return std::numeric_limits<double>::quiet_NaN();
        if (!waiting_.empty()) recompute();
        watched_ = true;
        return quotient(scaled, static_cast<Wide>(count)) * 0x1p-64;
    }

    // c*s - sum of t*p, as MCC and kappa have it.
    SignedWide covariance() const {
        return static_cast<SignedWide>(product(hits, total) - true_predicted_);
    }
    // s^2 less a sum of products.
    SignedWide rest_of_square(const Square& products) const {
        return static_cast<SignedWide>(product(total, total) - products);
    }
};

typedef ConfusionCells<std::uint64_t> NarrowCells;
typedef ConfusionCells<Wide> WideCells;

}  // namespace streameval
