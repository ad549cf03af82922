// The largest |TPR - FPR| over all thresholds of a ScoreTree: Kolmogorov and Smirnov's distance.
//
// With n and p the weights below a threshold, it is the largest |P n - N p| by P N. Every event
// changes P or N, and so this lead at all thresholds: there is no number to keep current. But
// the totals of a node bound it: between (n0, p0) and (n1, p1) it is at most P n1 - N p0, and
// at least P n0 - N p1. A node that cannot lead by more than what was found is not entered;
// of 10,000 leaves some dozens are.
#pragma once

#include <cstdint>
#include <limits>

#include "score_tree.hpp"

namespace streameval {

class GapSearch {
  public:
    explicit GapSearch(const Totals& totals) : totals_(totals) {}

    // Looks through what lies above the weights `below`.
    void visit(const void* node, int level, Totals below) {
        if (level == 0) {
            SignedWide lead = lead_of(below);
            static_cast<const Leaf*>(node)->read_pairs([&](int, std::uint64_t n, std::uint64_t p) {
                lead += lead_of({{n, p}});
                found(lead);
            });
            return;
        }
        const Inner* inner = static_cast<const Inner*>(node);
        Totals starts[Inner::kMaxSize];
        SignedWide most[Inner::kMaxSize];
        for (int i = 0; i < inner->size; ++i) {
            starts[i] = below;
            const SignedWide from = lead_of(below);
            below += inner->totals[i];
            found(lead_of(below));
            const SignedWide up = from + scaled(1, inner->totals[i].of[0]);
            const SignedWide down = scaled(0, inner->totals[i].of[1]) - from;
            most[i] = up > down ? up : down;
        }
        // The most promising first: what it finds spares the others.
        for (;;) {
            int next = 0;
            for (int i = 1; i < inner->size; ++i)
                if (most[i] > most[next]) next = i;
            if (most[next] <= best_) return;
            most[next] = 0;
            visit(inner->children[next], level - 1, starts[next]);
        }
    }

    Wide best() const { return static_cast<Wide>(best_); }

  private:
    const Totals totals_;
    SignedWide best_ = 0;

    SignedWide scaled(int side, std::uint64_t weight) const {
        return static_cast<SignedWide>(totals_.of[side]) * weight;
    }
    SignedWide lead_of(const Totals& below) const {
        return scaled(1, below.of[0]) - scaled(0, below.of[1]);
    }
    void found(SignedWide lead) {
        if (lead < 0) lead = -lead;
        if (lead > best_) best_ = lead;
    }
};

template <>
inline double ScoreTree::ks_statistic() const {
    if (totals_.of[0] == 0 || totals_.of[1] == 0) return std::numeric_limits<double>::quiet_NaN();
    GapSearch search(totals_);
    search.visit(root_, height_, Totals());
    return quotient(search.best(), product(totals_.of[0], totals_.of[1]));
}

}  // namespace streameval
