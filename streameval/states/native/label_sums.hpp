// The cells of a confusion and their sums over the classes, in integers of 64 and 128 bits.
//
// Every number that LabelSums computes in Python ints, bit for bit. The total weight stays
// below 2^62. Then no number here can pass its range: true, predicted and correct are at most
// the total, sums of their squares and products at most its square (2^124), and the numerator
// of a ratio, 2 * correct in units of 2^-64, is below 2^127.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "exact128.hpp"

namespace streameval {

// True, predicted and correct weight of one class, and its three ratios.
struct ClassSums {
    std::uint64_t truth = 0, predicted = 0, correct = 0;
    Wide precision = 0, recall = 0, f1 = 0;
    bool behind = false;  // the ratios wait for recompute()
};

// The weight of the events of class `row` predicted as class `column`.
struct Cell {
    std::size_t row, column;
    std::uint64_t weight;
};

enum class Counted { yes, too_large, negative };

class ConfusionCells {
public:
    static constexpr std::uint64_t most_total = (std::uint64_t(1) << 62) - 1;

    std::vector<ClassSums> classes;
    std::uint64_t total = 0, hits = 0;
    std::int64_t active = 0, with_true = 0, with_predicted = 0;
    Wide precision = 0, recall = 0, f1 = 0;
    Wide true_predicted = 0, true_squared = 0, predicted_squared = 0;
    // Set by a read: the next event then recomputes its ratios at once.
    bool watched = false;

    std::uint64_t cell(std::size_t i, std::size_t j) const {
        if (i < few && j < few) return near_[i * few + j];
        const auto found = far_.find(code(i, j));
        return found == far_.end() ? 0 : found->second;
    }

    // The cells that are not 0, in no order.
    std::vector<Cell> cells() const {
        std::vector<Cell> all;
        for (std::size_t at = 0; at < few * few; ++at) {
            if (near_[at]) all.push_back({at / few, at % few, near_[at]});
        }
        for (const auto& [at, weight] : far_) {
            if (weight) all.push_back({std::size_t(at >> 32), std::size_t(at & 0xffffffff), weight});
        }
        return all;
    }

    void clear() { *this = ConfusionCells(); }

    // Events of class i predicted as class j; a negative weight takes them back.
    // Nothing is changed unless the answer is yes.
    Counted add(std::size_t i, std::size_t j, std::int64_t weight) {
        // What can fail for want of memory comes before any change.
        grow(std::max(i, j) + 1);
        std::uint64_t& held = (i < few && j < few) ? near_[i * few + j] : far_[code(i, j)];
        if (weight > 0) {
            if (static_cast<std::uint64_t>(weight) > most_total - total) return Counted::too_large;
        } else if (-static_cast<std::uint64_t>(weight) > held) {
            return Counted::negative;
        }
        ClassSums& row = classes[i];
        ClassSums& column = classes[j];
        const std::uint64_t t = row.truth, p = column.predicted;
        // From here all is modulo 2^64 or 2^128; the true results are in range.
        const std::uint64_t more = static_cast<std::uint64_t>(weight);
        const Wide w = static_cast<Wide>(static_cast<SignedWide>(weight));
        // (t + w)^2 - t^2 = w(2t + w), and so on.
        true_squared += w * (2 * Wide(t) + w);
        predicted_squared += w * (2 * Wide(p) + w);
        if (i == j) {
            true_predicted += w * (Wide(t) + p + w);
            row.correct += more;
            hits += more;
        } else {
            true_predicted += w * (Wide(row.predicted) + column.truth);
        }
        total += more;
        held += more;
        if (!held && !(i < few && j < few)) far_.erase(code(i, j));
        const bool were_active = (i == j) ? (t || p) : false;
        const bool row_was = t || row.predicted, column_was = p || column.truth;
        row.truth = t + more;
        column.predicted = p + more;
        with_true += int(row.truth != 0) - int(t != 0);
        with_predicted += int(column.predicted != 0) - int(p != 0);
        if (i == j) {
            active += int(row.truth || row.predicted) - int(were_active);
        } else {
            active += int(row.truth || row.predicted) - int(row_was);
            active += int(column.truth || column.predicted) - int(column_was);
        }
        if (watched) {
            watched = false;
            renew(row);
            if (i != j) renew(column);
        } else {
            note(i, row);
            note(j, column);
        }
        return Counted::yes;
    }

    bool behind() const { return !waiting_.empty(); }

    // Bring the ratios up to date.
    void recompute() {
        for (const std::size_t k : waiting_) {
            classes[k].behind = false;
            renew(classes[k]);
        }
        waiting_.clear();
    }

    std::size_t bytes() const {
        // A node of the table: a pointer, the cell, and the allocator's overhead.
        return classes.capacity() * sizeof(ClassSums) + waiting_.capacity() * sizeof(std::size_t) +
               far_.bucket_count() * sizeof(void*) + far_.size() * 32;
    }

    // c*s - sum of t*p, as MCC and kappa have it.
    Whole covariance() const {
        return {static_cast<SignedWide>(Wide(hits) * total - true_predicted)};
    }
    // s^2 less a sum of products.
    Whole rest_of_square(Wide sum) const {
        return {static_cast<SignedWide>(Wide(total) * total - sum)};
    }

private:
    // The cells of the first classes have places of their own, without a look-up.
    static constexpr std::size_t few = 4;

    std::uint64_t near_[few * few] = {};
    std::unordered_map<std::uint64_t, std::uint64_t> far_;
    std::vector<std::size_t> waiting_;

    static std::uint64_t code(std::size_t i, std::size_t j) {
        return std::uint64_t(i) << 32 | std::uint64_t(j);
    }

    void grow(std::size_t count) {
        if (count <= classes.size()) return;
        // First the room for every class to wait, so that note() cannot fail half way.
        // Doubled, because labels are added one by one and reserve() allocates the exact size.
        if (count > waiting_.capacity()) waiting_.reserve(std::max(count, 2 * waiting_.capacity()));
        classes.resize(count);
    }

    void note(std::size_t k, ClassSums& one) {
        if (!one.behind) {
            one.behind = true;
            waiting_.push_back(k);
        }
    }

    void renew(ClassSums& one) {
        const Wide c = Wide(one.correct) << 64;
        const Wide new_precision = c ? c / one.predicted : 0;
        const Wide new_recall = c ? c / one.truth : 0;
        const Wide new_f1 = c ? (c + c) / (one.truth + one.predicted) : 0;
        precision += new_precision - one.precision;
        recall += new_recall - one.recall;
        f1 += new_f1 - one.f1;
        one.precision = new_precision;
        one.recall = new_recall;
        one.f1 = new_f1;
    }
};

}  // namespace streameval
