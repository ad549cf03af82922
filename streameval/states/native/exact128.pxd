# Integers of 128 and 256 bits: what compiled modules may know of exact128.hpp.

from libc.stdint cimport int64_t, uint64_t
from libcpp cimport bool as cbool


cdef extern from "exact128.hpp" namespace "streameval" nogil:
    # Cython takes them for 64 bits, and may convert none of them from or to Python; the
    # arithmetic that it writes into C++ is of 128.
    ctypedef unsigned long long Wide
    ctypedef long long SignedWide

    cdef cppclass U256:
        Wide high
        Wide low


cdef inline object integer(Wide number):
    cdef uint64_t high = <uint64_t>(number >> 64), low = <uint64_t>number
    return low if high == 0 else (<object>high << 64) | low


cdef inline object signed_integer(SignedWide number):
    return (<object><int64_t>(number >> 64) << 64) | <uint64_t>number


cdef inline Wide wide(object number):
    """Requires a number from 0 to 2**128 - 1."""
    cdef uint64_t high = number >> 64, low = number & 0xFFFF_FFFF_FFFF_FFFF
    return (<Wide>high << 64) | <Wide>low


cdef inline SignedWide signed_wide(object number):
    """Requires a number from -2**127 to 2**127 - 1."""
    return <SignedWide>wide(number & ((1 << 128) - 1))


cdef inline object long_integer(const U256& number):
    return integer(number.low) if number.high == 0 else (
        integer(number.high) << 128) | integer(number.low)


cdef inline U256 long_wide(object number):
    """Requires a number from 0 to 2**256 - 1."""
    cdef U256 value
    value.high = wide(number >> 128)
    value.low = wide(number & ((1 << 128) - 1))
    return value
