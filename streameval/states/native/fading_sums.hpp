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

#include "exact128.hpp"
#include "loss_tally.hpp"
#include "wide_tree.hpp"

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

    struct Bin {
        Wide weight = 0, hits = 0;
        U256 units;
    };

    bool counts = false, ranks = false, loses = false;  // which sums are current
    std::int64_t base = 0;
    Wide cells[4] = {0, 0, 0, 0};  // [2 * true + predicted]
    WideTree* tree = nullptr;
    U256 log_loss, brier;
    Wide inside = 0, outside = 0;  // weight of the scores in [0, 1], and of the others
    std::vector<double> edges;     // inner ones of the reliability bins
    std::vector<Bin> bins;

    bool any() const { return counts || ranks || loses; }
    Wide all() const { return cells[0] + cells[1] + cells[2] + cells[3]; }

    void forget() {
        counts = ranks = loses = false;
        for (Wide& cell : cells) cell = 0;
        tree->clear();
        log_loss = brier = U256();
        inside = outside = 0;
        std::fill(bins.begin(), bins.end(), Bin());
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
        log_loss >>= bits;
        brier >>= bits;
        inside >>= bits;
        outside >>= bits;
        for (Bin& bin : bins) {
            bin.weight >>= bits;
            bin.hits >>= bits;
            bin.units >>= bits;
        }
        base = oldest;
    }

    void add(std::uint8_t flags, double score, Wide weight) {
        if (ranks && flags & kScored) tree->insert(flags & kTrue, score, weight);
        if (counts && flags & kLabelled) cells[place(flags)] += weight;
        if (loses && flags & kScored) add_loss(flags & kTrue, score, weight, false);
    }
    // False where the score does not weigh so much, which no call should cause.
    bool remove(std::uint8_t flags, double score, Wide weight) {
        bool found = true;
        if (ranks && flags & kScored) found = tree->remove(flags & kTrue, score, weight);
        if (counts && flags & kLabelled) cells[place(flags)] -= weight;
        if (loses && flags & kScored) add_loss(flags & kTrue, score, weight, true);
        return found;
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
                found &= remove(event.flags, event.score, static_cast<Wide>(event.units) << (event.epoch - base));
        }
        if (first_ == events_.size()) clear_waiting();
        return found;
    }

    // Metrics: a ratio of integers, rounded once; nan where it has no value.
    double accuracy() const { return share(cells[0] + cells[3], all()); }
    double precision() const { return share(cells[3], cells[3] + cells[1]); }
    double recall() const { return share(cells[3], cells[3] + cells[2]); }
    double f1() const { return share(2 * cells[3], 2 * cells[3] + cells[1] + cells[2]); }
    double mean_log_loss() const { return mean(log_loss); }
    double mean_brier() const { return mean(brier); }

  private:
    std::vector<WaitingEvent> events_;
    std::size_t first_ = 0;

    static int place(std::uint8_t flags) { return (flags & kTrue ? 2 : 0) + (flags & kPredicted ? 1 : 0); }
    bool fits(std::uint64_t units, std::int64_t epoch) const {
        const std::int64_t bits = epoch - base;
        if (bits < 0 || bits > kMostBits) return false;
        if (bits + length(static_cast<Wide>(units)) >= kMostBits) return false;
        const Wide most = std::max({all(), tree->positives() + tree->negatives(), inside + outside});
        return length(most) < kMostBits;
    }

    void add_loss(bool positive, double score, Wide weight, bool less) {
        if (!(score >= 0.0 && score <= 1.0)) {
            change(outside, weight, less);
            return;
        }
        const double rest = 1.0 - score;
        const double missed = positive ? rest : score;
        change(log_loss, product(weight, static_cast<Wide>(loss_units(positive ? score : rest))), less);
        change(brier, product(weight, static_cast<Wide>(missed * missed * kUnits)), less);
        change(inside, weight, less);
        Bin& bin = bins[static_cast<std::size_t>(
            std::lower_bound(edges.begin(), edges.end(), score) - edges.begin())];
        change(bin.weight, weight, less);
        if (positive) change(bin.hits, weight, less);
        change(bin.units, product(weight, static_cast<Wide>(score * kUnits)), less);
    }

    static double share(Wide over, Wide under) {
        return under == 0 ? std::numeric_limits<double>::quiet_NaN() : quotient(over, under);
    }
    double mean(const U256& units) const {
        if (outside != 0 || inside == 0) return std::numeric_limits<double>::quiet_NaN();
        return quotient(units, U256{0, inside} << 60);
    }
};

}  // namespace streameval
