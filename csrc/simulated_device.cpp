// pykvbench._simulated_device: an asynchronous device whose completion times are known, ground truth for the harness.
#include <pybind11/pybind11.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "clock.h"

namespace py = pybind11;

namespace {

using pykvbench::now_ns;

// A sleeper wakes late (Linux adds 50 us of timer slack, a busy machine more), so the end of every wait is spun; 200 us
// leave work of that length, the shortest that is promised to be exact, without any sleep to be late from.
constexpr std::int64_t spun_ns = 200'000;

inline void pause() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

std::int64_t checked(std::int64_t duration_ns) {
    if (duration_ns < 0 || duration_ns > 3'600'000'000'000) {
        throw py::value_error("duration_ns must be between 0 and 3600000000000, one hour.");
    }
    return duration_ns;
}

// A real device needs no host processor to finish. So work is over when the clock passes its end, and whoever looks first
// retires it: the device's thread, or a waiter, who would otherwise read that thread's wake-up as the work's duration.
class Device : public std::enable_shared_from_this<Device> {
public:
    Device() : thread_([this] { execute(); }) {}
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    // Work still queued is dropped. The thread never touches Python, so joining it under the GIL cannot deadlock.
    ~Device() {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            stopping_ = true;
        }
        wake_.notify_one();
        thread_.join();
    }

    void submit(std::int64_t duration_ns) {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            last_end_ = std::max(now_ns(), last_end_) + duration_ns;
            ends_.push_back(last_end_);
        }
        wake_.notify_one();
    }

    // Everything submitted before the call is done when it returns. Needs no GIL and takes none.
    void wait() {
        std::unique_lock<std::mutex> lock(mutex_);
        const auto end = last_end_;
        lock.unlock();
        for (auto left = end - now_ns(); left > 0; left = end - now_ns()) {
            if (left > spun_ns) {
                std::this_thread::sleep_for(std::chrono::nanoseconds(left - spun_ns));
            } else {
                pause();
            }
        }
        lock.lock();
        retire();
    }

    bool busy() {
        const std::lock_guard<std::mutex> lock(mutex_);
        retire();
        return !ends_.empty();
    }

private:
    void execute() {
        std::unique_lock<std::mutex> lock(mutex_);
        while (!stopping_) {
            retire();
            if (ends_.empty()) {
                wake_.wait(lock);
            } else {
                wake_.wait_for(lock, std::chrono::nanoseconds(ends_.front() - now_ns()));
            }
        }
    }

    void retire() {
        while (!ends_.empty() && ends_.front() <= now_ns()) {
            ends_.pop_front();
        }
    }

    std::mutex mutex_;
    std::condition_variable wake_;
    std::deque<std::int64_t> ends_;  // of the work not retired, in order
    std::int64_t last_end_ = 0;
    bool stopping_ = false;
    std::thread thread_;  // last, so that everything it uses exists before it starts
};

// What a capsule's function is called with. The capsule owns it and so keeps the device alive.
struct HookContext {
    std::shared_ptr<Device> device;
    std::int64_t duration_ns;
};

py::object hook(Device& device, void (*function)(void*), std::int64_t duration_ns) {
    auto context = std::make_unique<HookContext>(HookContext{device.shared_from_this(), duration_ns});
    auto* capsule = PyCapsule_New(reinterpret_cast<void*>(function), "pykvbench.hook", [](PyObject* self) {
        delete static_cast<HookContext*>(PyCapsule_GetContext(self));
    });
    if (capsule == nullptr || PyCapsule_SetContext(capsule, context.get()) != 0) {
        throw py::error_already_set();
    }
    context.release();
    return py::reinterpret_steal<py::object>(capsule);
}

py::object wait_hook(Device& device) {
    return hook(device, [](void* context) { static_cast<HookContext*>(context)->device->wait(); }, 0);
}

py::object submit_hook(Device& device, std::int64_t duration_ns) {
    const auto submit = [](void* context) {
        const auto& work = *static_cast<HookContext*>(context);
        work.device->submit(work.duration_ns);
    };
    return hook(device, submit, checked(duration_ns));
}

void spin(std::int64_t duration_ns) {
    const auto end = now_ns() + checked(duration_ns);
    while (now_ns() < end) {
        pause();
    }
}

}  // namespace

PYBIND11_MODULE(_simulated_device, m, py::mod_gil_not_used(), py::multiple_interpreters::per_interpreter_gil()) {
    m.doc() = "An asynchronous device with programmed latencies.";
    py::class_<Device, std::shared_ptr<Device>>(m, "Device", "Executes queued work in order, on a thread of its own.")
        .def(py::init<>())
        .def("submit", [](Device& self, std::int64_t ns) { self.submit(checked(ns)); }, py::arg("duration_ns"),
             "Queue work that ends duration_ns after the later of now and the end of the work before it.")
        .def("wait", &Device::wait, py::call_guard<py::gil_scoped_release>(), "Return when all work queued is done.")
        .def("busy", &Device::busy, "Whether any work queued is not done yet.")
        .def("wait_hook", &wait_hook, "A PyCapsule named pykvbench.hook that does what wait does, holding the GIL.")
        .def("submit_hook", &submit_hook, py::arg("duration_ns"),
             "A PyCapsule named pykvbench.hook that submits duration_ns each time it is called.")
        .def_static("spin", &spin, py::arg("duration_ns"),
                    "Keep the calling thread busy, holding the GIL, as dispatching does.");
}
