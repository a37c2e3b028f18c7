// The one clock that every stamp is taken from: raw, so that time daemons cannot slew it inside a sample.
#pragma once

#include <time.h>

#include <cstdint>

namespace pykvbench {

#if defined(__APPLE__)
constexpr const char* clock_name = "CLOCK_UPTIME_RAW";
#elif defined(__linux__)
constexpr const char* clock_name = "CLOCK_MONOTONIC_RAW";
#else
#error "pykvbench measures on Linux and macOS only"
#endif

// Nanoseconds since an arbitrary moment; the counter's frequency is the system's business, it differs between chips.
static inline std::int64_t now_ns() noexcept {
#if defined(__APPLE__)
    return static_cast<std::int64_t>(clock_gettime_nsec_np(CLOCK_UPTIME_RAW));
#else
    timespec now;
    clock_gettime(CLOCK_MONOTONIC_RAW, &now);
    return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
#endif
}

}  // namespace pykvbench
