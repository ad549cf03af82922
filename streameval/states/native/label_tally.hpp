// Counts of the labels of events, and of the sizes of their sets, in integers of C++.
//
// Once it was read, an average over labels or events is kept current: each of its terms is an
// integer of units of 2^-64, and an event changes those of its labels, or of one size, only.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "exact128.hpp"

namespace streameval {

// Total weights stay below, so that no sum passes its integer.
constexpr std::int64_t MOST_LABELLED = std::int64_t(1) << 40;

enum LabelRule { PRECISION, RECALL, F1, JACCARD, LABEL_RULES };

// Numerator and denominator, of how many were right, are true and were predicted.
inline void label_parts(LabelRule rule, std::int64_t right, std::int64_t truth, std::int64_t predicted,
                        std::int64_t* over, std::int64_t* under) {
    *over = rule == F1 ? 2 * right : right;
    *under = rule == PRECISION ? predicted
             : rule == RECALL  ? truth
             : rule == F1      ? truth + predicted
                               : truth + predicted - right;
}

// over / under in units of 2^-64, rounded down.
inline Wide label_units(std::int64_t over, std::int64_t under) {
    return (Wide(static_cast<std::uint64_t>(over)) << 64) / static_cast<std::uint64_t>(under);
}

inline double share(std::int64_t over, std::int64_t under) {
    // Both are below 2^53, so that the quotient is rounded once.
    return under > 0 ? static_cast<double>(over) / static_cast<double>(under) : NAN;
}

// The sums of an average, where it is kept current.
struct LabelMean {
    bool kept = false;
    Wide units = 0;
    std::int64_t defined = 0;

    double value() const {
        double mean = NAN;
        mean_of_scaled(units, defined, &mean);
        return mean;
    }
};

enum Outcome { HIT, FALSE_ALARM, MISS, OUTCOMES };

class LabelTally {
  public:
    struct Label {
        std::int64_t held[OUTCOMES] = {0, 0, 0};
        std::int64_t moved[OUTCOMES] = {0, 0, 0};
        bool changed = false;

        std::int64_t right() const { return held[HIT]; }
        std::int64_t truth() const { return held[HIT] + held[MISS]; }
        std::int64_t predicted() const { return held[HIT] + held[FALSE_ALARM]; }
    };

    std::int64_t weight = 0, moved = 0;
    bool changed = false;
    std::vector<Label> labels;
    std::vector<std::size_t> touched;  // since the changes were last handed over

    std::size_t add_label() {
        labels.emplace_back();
        return labels.size() - 1;
    }
    void count(std::int64_t by) {
        weight += by;
        moved += by;
        changed = true;
    }
    void count(std::size_t at, Outcome outcome, std::int64_t by) {
        follow(at, outcome, by);
        Label& label = labels[at];
        label.moved[outcome] += by;
        if (!label.changed) {
            label.changed = true;
            touched.push_back(at);
        }
    }
    // What the state has counted itself.
    void follow(std::size_t at, int outcome, std::int64_t by) {
        Label& label = labels[at];
        change_means(label, false);
        label.held[outcome] += by;
        sums_[outcome] += by;
        change_means(label, true);
    }
    // What the state holds, in an empty tally.
    void hold(std::size_t at, int outcome, std::int64_t by) {
        labels[at].held[outcome] = by;
        sums_[outcome] += by;
    }
    void handed_over() {
        for (std::size_t at : touched) {
            for (std::int64_t& number : labels[at].moved) number = 0;
            labels[at].changed = false;
        }
        touched.clear();
        moved = 0;
        changed = false;
    }

    double micro(int rule) const {
        std::int64_t over, under;
        label_parts(static_cast<LabelRule>(rule), sums_[HIT], sums_[HIT] + sums_[MISS],
                    sums_[HIT] + sums_[FALSE_ALARM], &over, &under);
        return share(over, under);
    }
    double macro(int rule) {
        LabelMean& mean = means_[rule];
        if (!mean.kept) {
            mean = LabelMean();
            mean.kept = any_kept_ = true;
            for (const Label& label : labels) change(static_cast<LabelRule>(rule), label, true);
        }
        return mean.value();
    }

  private:
    std::int64_t sums_[OUTCOMES] = {0, 0, 0};
    LabelMean means_[LABEL_RULES];
    bool any_kept_ = false;

    void change_means(const Label& label, bool more) {
        if (!any_kept_) return;
        for (int rule = 0; rule < LABEL_RULES; ++rule)
            if (means_[rule].kept) change(static_cast<LabelRule>(rule), label, more);
    }
    void change(LabelRule rule, const Label& label, bool more) {
        std::int64_t over, under;
        label_parts(rule, label.right(), label.truth(), label.predicted(), &over, &under);
        if (under == 0) return;
        const Wide units = label_units(over, under);
        means_[rule].units += more ? units : Wide(0) - units;
        means_[rule].defined += more ? 1 : -1;
    }
};

struct SizeKey {
    std::int64_t hits, predicted, truth;
    bool operator==(const SizeKey& other) const {
        return hits == other.hits && predicted == other.predicted && truth == other.truth;
    }
};
struct SizeHash {
    std::size_t operator()(const SizeKey& key) const {
        return static_cast<std::size_t>((key.hits * 1000003 + key.predicted) * 1000003 + key.truth);
    }
};
struct SizeWeights {
    std::int64_t held = 0, moved = 0;
    bool changed = false;
};

class SizeTally {
  public:
    std::int64_t weight = 0, moved = 0;
    std::unordered_map<SizeKey, SizeWeights, SizeHash> sizes;
    std::vector<SizeKey> touched;

    void count(std::int64_t hits, std::int64_t predicted, std::int64_t truth, std::int64_t by) {
        follow(hits, predicted, truth, by);
        const SizeKey key{hits, predicted, truth};
        SizeWeights& weights = sizes[key];
        weights.moved += by;
        moved += by;
        if (!weights.changed) {
            weights.changed = true;
            touched.push_back(key);
        }
    }
    // What the state has counted itself.
    void follow(std::int64_t hits, std::int64_t predicted, std::int64_t truth, std::int64_t by) {
        const SizeKey key{hits, predicted, truth};
        change_means(key, by);
        sizes[key].held += by;
        weight += by;
        if (hits == predicted && hits == truth) matches_ += by;
    }
    void hold(std::int64_t hits, std::int64_t predicted, std::int64_t truth, std::int64_t by) {
        sizes[SizeKey{hits, predicted, truth}].held = by;
        if (hits == predicted && hits == truth) matches_ += by;
    }
    std::int64_t moved_of(const SizeKey& key) const { return sizes.at(key).moved; }
    void handed_over() {
        for (const SizeKey& key : touched) {
            SizeWeights& weights = sizes[key];
            weights.moved = 0;
            weights.changed = false;
        }
        touched.clear();
        moved = 0;
    }

    double accuracy() const { return share(matches_, weight); }
    double samples(int rule) {
        LabelMean& mean = means_[rule];
        if (!mean.kept) {
            mean = LabelMean();
            mean.kept = any_kept_ = true;
            for (const auto& one : sizes)
                change(static_cast<LabelRule>(rule), one.first, one.second.held);
        }
        return mean.value();
    }

  private:
    std::int64_t matches_ = 0;
    LabelMean means_[LABEL_RULES];
    bool any_kept_ = false;

    void change_means(const SizeKey& key, std::int64_t by) {
        if (!any_kept_) return;
        for (int rule = 0; rule < LABEL_RULES; ++rule)
            if (means_[rule].kept) change(static_cast<LabelRule>(rule), key, by);
    }
    void change(LabelRule rule, const SizeKey& key, std::int64_t by) {
        std::int64_t over, under;
        label_parts(rule, key.hits, key.truth, key.predicted, &over, &under);
        if (under == 0) return;
        means_[rule].units += label_units(over, under) * static_cast<Wide>(SignedWide(by));
        means_[rule].defined += by;
    }
};

}  // namespace streameval
