// The entries of a label join by the text of their id, in a hash table whose look-ups wait for
// memory together.
//
// A batch is looked up in steps: first every slot is prefetched, then every entry that may match,
// then its key, and only then are they compared. Nothing is ever removed from a table.
#pragma once

#include <Python.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#if defined(__GNUC__)
#define STREAMEVAL_PREFETCH(place) __builtin_prefetch(place)
#else
#define STREAMEVAL_PREFETCH(place) ((void)(place))
#endif

namespace streameval {

// A float64 that is never nan where it is there, or an object; by the column.
union Cell {
    double number;
    PyObject* held;
};

// What is kept of an id; the cells of its payload follow in memory.
struct KeyEntry {
    PyObject* key;    // owned, as the value is
    PyObject* value;  // the label or null of a packed entry, the whole of another
    int64_t time;
    int64_t newest;
    int32_t partition;
    uint32_t declined;  // the batch that has declined a record of this id
    uint8_t kind;       // the tag of a packed entry
    bool changed;
    uint32_t number;    // from 0 on, in the order of the keys' arrival

    Cell* cells() { return reinterpret_cast<Cell*>(this + 1); }
};

constexpr uint8_t unpacked = 255;

class KeySlots {
   public:
    static constexpr std::size_t batch = 128;

    void set_width(std::size_t width) { stride_ = sizeof(KeyEntry) + width * sizeof(Cell); }

    std::size_t size() const { return used_; }

    std::size_t bytes() const {
        return slots_.capacity() * sizeof(Slot) + chunks_.size() * chunk * stride_;
    }

    // Reserves slots for so many more keys; at least half stay free, so that a search is short.
    void reserve(std::size_t more) {
        std::size_t wanted = slots_.empty() ? 1024 : slots_.size();
        while (wanted < 2 * (used_ + more)) wanted *= 2;
        if (wanted == slots_.size()) return;
        std::vector<Slot> larger(wanted);
        std::size_t mask = wanted - 1;
        for (const Slot& slot : slots_) {
            if (slot.number == 0) continue;
            std::size_t place = static_cast<std::size_t>(slot.hash) & mask;
            while (larger[place].number != 0) place = (place + 1) & mask;
            larger[place] = slot;
        }
        slots_.swap(larger);
    }

    // Prefetches what the look-ups of some keys will need.
    void prefetch(const Py_hash_t* hashes, std::size_t count) {
        if (slots_.empty()) return;
        std::size_t mask = slots_.size() - 1;
        KeyEntry* found[batch];
        for (std::size_t n = 0; n < count; ++n)
            STREAMEVAL_PREFETCH(&slots_[static_cast<std::size_t>(hashes[n]) & mask]);
        for (std::size_t n = 0; n < count; ++n) {
            std::size_t place = static_cast<std::size_t>(hashes[n]) & mask;
            while (slots_[place].number != 0 && slots_[place].hash != hashes[n])
                place = (place + 1) & mask;
            found[n] = slots_[place].number == 0 ? nullptr : at(slots_[place].number - 1);
            if (found[n] != nullptr) STREAMEVAL_PREFETCH(found[n]);
        }
        for (std::size_t n = 0; n < count; ++n)
            if (found[n] != nullptr) STREAMEVAL_PREFETCH(found[n]->key);
    }

    // The entry of a key, or null.
    KeyEntry* find(PyObject* key, Py_hash_t hash) {
        if (slots_.empty()) return nullptr;
        const Slot& slot = slots_[place(key, hash)];
        return slot.number == 0 ? nullptr : at(slot.number - 1);
    }

    // An entry for a key that has none, with nothing in it; a slot has to be reserved.
    KeyEntry* take(PyObject* key, Py_hash_t hash) {
        if (used_ % chunk == 0) chunks_.emplace_back(new char[chunk * stride_]);
        KeyEntry* entry = at(used_);
        std::memset(static_cast<void*>(entry), 0, stride_);
        Slot& slot = slots_[place(key, hash)];
        slot.hash = hash;
        entry->number = static_cast<uint32_t>(used_);
        slot.number = static_cast<uint32_t>(++used_);
        Py_INCREF(key);
        entry->key = key;
        return entry;
    }

    KeyEntry* at(std::size_t n) {
        return reinterpret_cast<KeyEntry*>(chunks_[n / chunk].get() + n % chunk * stride_);
    }

   private:
    static constexpr std::size_t chunk = 1024;

    struct Slot {
        Py_hash_t hash = 0;
        uint32_t number = 0;  // of the entry, from 1 on; 0 where the slot is free
    };

    // Where a key is, or the free slot where it would be.
    std::size_t place(PyObject* key, Py_hash_t hash) {
        std::size_t mask = slots_.size() - 1;
        std::size_t place = static_cast<std::size_t>(hash) & mask;
        for (; slots_[place].number != 0; place = (place + 1) & mask) {
            if (slots_[place].hash != hash) continue;
            PyObject* other = at(slots_[place].number - 1)->key;
            // Compares two texts: runs no Python code and raises nothing.
            if (other == key || PyUnicode_Compare(other, key) == 0) break;
        }
        return place;
    }

    std::vector<Slot> slots_;
    std::vector<std::unique_ptr<char[]>> chunks_;
    std::size_t used_ = 0;
    std::size_t stride_ = sizeof(KeyEntry);
};

// Finds hashes in an ascending run of them, which has to stay.
class SortedHashes {
   public:
    void set(const int64_t* hashes, std::size_t size) {
        hashes_ = hashes;
        // Some eight hashes in a part, as they are evenly distributed.
        int bits = 1;
        while ((std::size_t(16) << bits) <= size) ++bits;
        shift_ = 64 - bits;
        starts_.assign((std::size_t(1) << bits) + 1, uint32_t(size));
        for (std::size_t n = size; n-- > 0;) starts_[part(hashes[n])] = uint32_t(n);
        for (std::size_t n = starts_.size() - 1; n-- > 0;)
            if (starts_[n] == size) starts_[n] = starts_[n + 1];  // none is in it
    }

    // The first place of each hash, -1 where there is none.
    void first(const int64_t* wanted, std::size_t count, int64_t* found) const {
        constexpr std::size_t batch = 64;
        for (std::size_t start = 0; start < count; start += batch) {
            const std::size_t stop = std::min(count, start + batch);
            for (std::size_t n = start; n < stop; ++n) STREAMEVAL_PREFETCH(&starts_[part(wanted[n])]);
            for (std::size_t n = start; n < stop; ++n)
                STREAMEVAL_PREFETCH(&hashes_[starts_[part(wanted[n])]]);
            for (std::size_t n = start; n < stop; ++n) {
                const std::size_t p = part(wanted[n]);
                const int64_t* const end = hashes_ + starts_[p + 1];
                const int64_t* at = std::lower_bound(hashes_ + starts_[p], end, wanted[n]);
                found[n] = at != end && *at == wanted[n] ? at - hashes_ : -1;
            }
        }
    }

   private:
    std::size_t part(int64_t hash) const {
        // In the order of signed numbers.
        return std::size_t((uint64_t(hash) ^ (uint64_t(1) << 63)) >> shift_);
    }

    const int64_t* hashes_ = nullptr;
    int shift_ = 63;
    std::vector<uint32_t> starts_;  // of each part, and the end
};

// Merges two ascending runs of hashes, and what belongs to each; equal ones in this order.
inline void merge(const int64_t* hashes, const int64_t* places, std::size_t size,
                  const int64_t* more_hashes, const int64_t* more_places, std::size_t more,
                  int64_t* all_hashes, int64_t* all_places) {
    std::size_t a = 0, b = 0;
    for (std::size_t n = 0; n < size + more; ++n) {
        const bool first = b == more || (a < size && hashes[a] <= more_hashes[b]);
        all_hashes[n] = first ? hashes[a] : more_hashes[b];
        all_places[n] = first ? places[a++] : more_places[b++];
    }
}

// MessagePack as msgspec writes it.
class Packer {
   public:
    std::string bytes;

    void nil() { bytes.push_back(char(0xC0)); }

    void number(double value) {
        uint64_t bits;
        std::memcpy(&bits, &value, 8);
        big(0xCB, bits, 8);
    }

    void whole(int64_t value) {
        if (-32 <= value && value < 128) {
            bytes.push_back(char(value));
            return;
        }
        // 0xCC to 0xCF are natural numbers of 1, 2, 4 and 8 bytes, 0xD0 to 0xD3 negative ones.
        const bool below = value < 0;
        const uint64_t digits = below ? ~uint64_t(value) << 1 : uint64_t(value);
        int power = 0;
        while (power < 3 && digits >> (8 << power)) ++power;
        big((below ? 0xD0 : 0xCC) + unsigned(power), uint64_t(value), 1 << power);
    }

    void text(const char* data, std::size_t size) {
        if (size < 32)
            bytes.push_back(char(0xA0 | size));
        else if (size <= UINT8_MAX)
            big(0xD9, size, 1);
        else
            long_head(0xDA, size);
        bytes.append(data, size);
    }

    void array(std::size_t size) {
        if (size < 16)
            bytes.push_back(char(0x90 | size));
        else
            long_head(0xDC, size);
    }

   private:
    void long_head(unsigned head, std::size_t size) {
        const bool is_long = size > UINT16_MAX;
        big(head + is_long, size, is_long ? 4 : 2);
    }

    void big(unsigned head, uint64_t value, int size) {
        char out[9];
        out[0] = char(head);
        for (int n = 0; n < size; ++n) out[1 + n] = char(value >> 8 * (size - 1 - n));
        bytes.append(out, std::size_t(size) + 1);
    }
};

}  // namespace streameval
