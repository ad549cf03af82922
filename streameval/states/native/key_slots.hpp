// A hash table of Python texts to Python objects whose look-ups wait for memory together.
//
// Each look-up in a table larger than the processor's cache waits for memory,
// and a loop over look-ups waits for one after the other. Here a batch is looked up in steps:
// first every slot is prefetched, then every key that may match, and only then are they
// compared. Nothing is ever removed from a table.

#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#if defined(__GNUC__)
#define STREAMEVAL_PREFETCH(place) __builtin_prefetch(place)
#else
#define STREAMEVAL_PREFETCH(place) ((void)(place))
#endif

namespace streameval {

struct KeySlot {
    Py_hash_t hash = 0;
    PyObject* key = nullptr;  // owned, as the value is; null where the slot is free
    PyObject* value = nullptr;
    bool changed = false;
};

class KeySlots {
   public:
    static constexpr std::size_t batch = 128;

    std::size_t size() const { return used_; }

    std::size_t bytes() const { return slots_.capacity() * sizeof(KeySlot); }

    // Reserves slots for so many more keys; at least half stay free, so that a search is short.
    void reserve(std::size_t more) {
        std::size_t wanted = slots_.empty() ? 1024 : slots_.size();
        while (wanted < 2 * (used_ + more)) wanted *= 2;
        if (wanted == slots_.size()) return;
        std::vector<KeySlot> larger(wanted);
        std::size_t mask = wanted - 1;
        for (const KeySlot& slot : slots_) {
            if (slot.key == nullptr) continue;
            std::size_t place = static_cast<std::size_t>(slot.hash) & mask;
            while (larger[place].key != nullptr) place = (place + 1) & mask;
            larger[place] = slot;
        }
        slots_.swap(larger);
    }

    // Prefetches what the look-ups of some keys will need.
    void prefetch(const Py_hash_t* hashes, std::size_t count) const {
        if (slots_.empty()) return;
        std::size_t mask = slots_.size() - 1;
        for (std::size_t n = 0; n < count; ++n)
            STREAMEVAL_PREFETCH(&slots_[static_cast<std::size_t>(hashes[n]) & mask]);
        for (std::size_t n = 0; n < count; ++n) {
            std::size_t place = static_cast<std::size_t>(hashes[n]) & mask;
            while (slots_[place].key != nullptr && slots_[place].hash != hashes[n])
                place = (place + 1) & mask;
            if (slots_[place].key == nullptr) continue;
            STREAMEVAL_PREFETCH(slots_[place].key);
            STREAMEVAL_PREFETCH(slots_[place].value);
        }
    }

    // The slot of a key, or the free one where it would be; null where there are no slots.
    KeySlot* find(PyObject* key, Py_hash_t hash) {
        if (slots_.empty()) return nullptr;
        std::size_t mask = slots_.size() - 1;
        std::size_t place = static_cast<std::size_t>(hash) & mask;
        while (slots_[place].key != nullptr) {
            if (slots_[place].hash == hash &&
                (slots_[place].key == key || equal(slots_[place].key, key)))
                break;
            place = (place + 1) & mask;
        }
        return &slots_[place];
    }

    // Fills a free slot; it has to be reserved.
    void take(KeySlot* slot, PyObject* key, Py_hash_t hash, PyObject* value) {
        Py_INCREF(key);
        Py_INCREF(value);
        slot->hash = hash;
        slot->key = key;
        slot->value = value;
        ++used_;
    }

    void replace(KeySlot* slot, PyObject* value) {
        PyObject* before = slot->value;
        Py_INCREF(value);
        slot->value = value;
        Py_DECREF(before);
    }

    // Releases every key and value.
    void clear() {
        std::vector<KeySlot> gone;
        gone.swap(slots_);
        used_ = 0;
        for (const KeySlot& slot : gone) {
            if (slot.key == nullptr) continue;
            Py_DECREF(slot.key);
            Py_DECREF(slot.value);
        }
    }

   private:
    // Compares two texts: runs no Python code and raises nothing.
    static bool equal(PyObject* left, PyObject* right) {
        return PyUnicode_Compare(left, right) == 0;
    }

    std::vector<KeySlot> slots_;
    std::size_t used_ = 0;
};

}  // namespace streameval
