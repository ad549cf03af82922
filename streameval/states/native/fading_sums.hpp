// Sums over all epochs of a fading window of binary events, in whole units of one of them,
// and the latest events, which wait here until their epochs' own states are needed.
//
// An event that weighs u units of epoch e weighs u * 2^(e - base): a label pair's weight has
// up to 126 bits, a sum of losses 193, W2 252. What no longer fits is divided by a power of
// two once the epochs before are dropped, and then nothing is lost.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "confusion_cells.hpp"
#include "exact128.hpp"
#include "fraction_tree.hpp"
#include "loss_tally.hpp"

namespace streameval {

enum Flags : std::uint8_t { kTrue = 1, kPredicted = 2, kScored = 4, kLabelled = 8 };

// Whole units from 2^31 to 2^32 that an event weighs, by the part of its epoch that has
// passed: units() in windows/fading.py. The tables are made there.
class FadingUnits {
  public:
    std::vector<double> coarse, middle, fine;

    std::uint64_t at(std::int64_t phase, std::int64_t span) const {
        const std::int64_t steps = static_cast<std::int64_t>(
            static_cast<double>(phase) / static_cast<double>(span) * 68719476736.0);
        const double power = coarse[static_cast<std::size_t>(steps >> 24)] *
            middle[static_cast<std::size_t>((steps >> 12) & 4095)] *
            fine[static_cast<std::size_t>(steps & 4095)];
        return static_cast<std::uint64_t>(power * 2147483648.0 + 0.5);
    }
};

inline void change(U256& sum, const U256& by, bool less) {
    if (less)
        sum -= by;
    else
        sum += by;
}
inline void change(Wide& sum, Wide by, bool less) { sum = less ? sum - by : sum + by; }

struct WaitingEvent {
    double score;
    std::uint64_t units;
    std::int64_t epoch;
    std::uint8_t flags;
};

class FadingSums {
  public:
    static constexpr int kMostBits = 126;  // of all events' weight

    bool counts = false, ranks = false, loses = false;  // which sums are current
    std::int64_t base = 0;
    Wide cells[4] = {0, 0, 0, 0};  // [2 * true + predicted]
    WideTree* tree = nullptr;
    // Log loss, Brier terms, weight of the scores in [0, 1], of the others; and of all bins the
    // weights, hits and units.
    std::vector<U256> losses;
    std::vector<double> edges;  // inner ones of the reliability bins

    bool any() const { return counts || ranks || loses; }
    Wide weight_of_losses() const { return loses ? losses[2].low + losses[3].low : Wide(0); }
    Wide all() const { return cells[0] + cells[1] + cells[2] + cells[3]; }

    void forget() {
        counts = ranks = loses = false;
        for (Wide& cell : cells) cell = 0;
        tree->clear();
        std::fill(losses.begin(), losses.end(), U256());
    }

    // The weight of an event or group of an epoch in units of the base, after making room for
    // it; 0 where there is none. All epochs before `oldest` have been dropped.
    Wide weight_of(std::uint64_t units, std::int64_t epoch, std::int64_t oldest) {
        if (!fits(units, epoch)) {
            if (oldest <= base) return 0;
            rebase(oldest);
            if (!fits(units, epoch)) return 0;
        }
        return static_cast<Wide>(units) << (epoch - base);
    }

    // Makes the units those of a newer epoch; all before it have been dropped.
    void rebase(std::int64_t oldest) {
        // Of more than all bits nothing is left: the sums are empty.
        const int bits = static_cast<int>(std::min<std::int64_t>(oldest - base, 127));
        for (Wide& cell : cells) cell >>= bits;
        tree->shift_right(bits);
        for (U256& sum : losses) sum >>= bits;
        base = oldest;
    }

    // Adds an event, or removes it; of what does not fit nothing is kept. False where the score
    // does not weigh so much, which no call should cause.
    bool count(std::uint8_t flags, double score, std::uint64_t units, std::int64_t epoch,
               std::int64_t oldest, bool less) {
        if (!any()) return true;
        const Wide weight = weight_of(units, epoch, oldest);
        if (weight != 0) return count_weight(flags, score, weight, less);
        forget();
        return true;
    }

    // The events that wait, oldest first; their epochs ascend.
    std::size_t waiting() const { return events_.size() - first_; }
    const WaitingEvent& waiting_at(std::size_t at) const { return events_[first_ + at]; }
    void reserve() {
        if (events_.size() == events_.capacity() && first_ > events_.size() / 2) {
            events_.erase(events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(first_));
            first_ = 0;
        }
        if (events_.size() == events_.capacity())
            events_.reserve(std::max<std::size_t>(16, 2 * events_.size()));
    }
    // Requires reserve().
    void wait(std::uint8_t flags, double score, std::uint64_t units, std::int64_t epoch) {
        events_.push_back({score, units, epoch, flags});
    }
    void clear_waiting() {
        events_.clear();
        first_ = 0;
    }
    // Drops what waits of epochs before this one, from the sums too.
    bool drop_before(std::int64_t oldest) {
        bool found = true;
        for (; first_ < events_.size() && events_[first_].epoch < oldest; ++first_) {
            const WaitingEvent& event = events_[first_];
            if (any())
                found &= count_weight(event.flags, event.score,
                                      static_cast<Wide>(event.units) << (event.epoch - base), true);
        }
        if (first_ == events_.size()) clear_waiting();
        return found;
    }

    // Metrics: a ratio of integers, rounded once; nan where it has no value.
    double accuracy() const { return share(cells[0] + cells[3], all()); }
    double precision() const { return share(cells[3], cells[3] + cells[1]); }
    double recall() const { return share(cells[3], cells[3] + cells[2]); }
    double f1() const { return share(2 * cells[3], 2 * cells[3] + cells[1] + cells[2]); }
    double log_loss() const { return mean(losses[0]); }
    double brier_score() const { return mean(losses[1]); }

  private:
    std::vector<WaitingEvent> events_;
    std::size_t first_ = 0;

    bool fits(std::uint64_t units, std::int64_t epoch) const {
        const std::int64_t bits = epoch - base;
        if (bits < 0 || bits > kMostBits) return false;
        if (bits + length(static_cast<Wide>(units)) >= kMostBits) return false;
        const Wide most = std::max({all(), tree->positives() + tree->negatives(), weight_of_losses()});
        return length(most) < kMostBits;
    }

    bool count_weight(std::uint8_t flags, double score, Wide weight, bool less) {
        const bool positive = flags & kTrue;
        bool found = true;
        if (ranks && flags & kScored) {
            if (less)
                found = tree->remove(positive, score, weight);
            else
                tree->insert(positive, score, weight);
        }
        if (counts && flags & kLabelled)
            change(cells[(positive ? 2 : 0) + (flags & kPredicted ? 1 : 0)], weight, less);
        if (loses && flags & kScored) count_loss(positive, score, weight, less);
        return found;
    }

    void count_loss(bool positive, double score, Wide weight, bool less) {
        if (!BinaryTerms::has(score)) {
            change(losses[3], U256{0, weight}, less);
            return;
        }
        const BinaryTerms terms(positive, score);
        const std::size_t size = edges.size() + 1;
        U256* bin = &losses[4 + bin_of(edges, score)];
        change(losses[0], product(weight, loss_units<Wide>(terms.given)), less);
        change(losses[1], product(weight, static_cast<Wide>(terms.brier)), less);
        change(losses[2], U256{0, weight}, less);
        change(bin[0], U256{0, weight}, less);
        if (positive) change(bin[size], U256{0, weight}, less);
        change(bin[2 * size], product(weight, static_cast<Wide>(terms.units)), less);
    }

    double mean(const U256& units) const {
        if (losses[3].low != 0 || losses[2].low == 0) return std::numeric_limits<double>::quiet_NaN();
        return quotient(units, losses[2] << 60);
    }
};

}  // namespace streameval
