// pykvbench._timer: stamps around a step and its sync, written into the caller's array, and what is known of the clock.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "clock.h"

#if defined(__APPLE__)
#include <pthread/qos.h>
#else
#include <sys/resource.h>
#endif

namespace py = pybind11;

namespace {

using pykvbench::now_ns;

// A Python callable, or a native function with its context that a PyCapsule carries. Borrowed: the arguments outlive it.
class Hook {
public:
    Hook(const char* role, const py::object& source) {
        if (PyCapsule_IsValid(source.ptr(), capsule_name)) {
            native_ = reinterpret_cast<Native>(PyCapsule_GetPointer(source.ptr(), capsule_name));
            context_ = PyCapsule_GetContext(source.ptr());
        } else if (PyCallable_Check(source.ptr())) {
            callable_ = source.ptr();
        } else {
            throw py::type_error(std::string(role) + " must be a callable or a PyCapsule named " + capsule_name
                                 + ", not " + Py_TYPE(source.ptr())->tp_name + ".");
        }
    }

    py::object operator()() const { return native_ ? call_native() : checked(PyObject_CallNoArgs(callable_)); }

    py::object operator()(const py::object& argument) const {
        return native_ ? call_native() : checked(PyObject_CallOneArg(callable_, argument.ptr()));
    }

private:
    using Native = void (*)(void*);
    static constexpr const char* capsule_name = "pykvbench.hook";

    py::object call_native() const {
        native_(context_);
        return py::none();
    }

    static py::object checked(PyObject* result) {
        if (result == nullptr) {
            throw py::error_already_set();
        }
        return py::reinterpret_steal<py::object>(result);
    }

    PyObject* callable_ = nullptr;
    Native native_ = nullptr;
    void* context_ = nullptr;
};

// The rows of `out`, zeroed. A converting caster would time into a copy and lose the stamps, so everything is refused
// that cannot be written in place; zeroing also touches every page before the first sample.
std::int64_t* writable_rows(const py::object& out, py::ssize_t& count) {
    using Stamps = py::array_t<std::int64_t, py::array::c_style>;
    constexpr int aligned = py::detail::npy_api::NPY_ARRAY_ALIGNED_;
    if (!Stamps::check_(out)) {
        throw py::type_error("out must be a C-contiguous NumPy array of int64; make it with numpy.empty((K, 3), numpy.int64).");
    }
    auto stamps = py::reinterpret_borrow<Stamps>(out);
    if (stamps.ndim() != 2 || stamps.shape(0) < 1 || stamps.shape(1) != 3) {
        throw py::value_error("out must have the shape [K, 3] with K of at least 1: start, dispatched, completed.");
    }
    if (!stamps.writeable() || (stamps.flags() & aligned) == 0) {
        throw py::value_error("out must be writeable and aligned; make it with numpy.empty((K, 3), numpy.int64).");
    }
    count = stamps.shape(0);
    auto* rows = stamps.mutable_data();
    std::memset(rows, 0, static_cast<std::size_t>(stamps.nbytes()));
    return rows;
}

py::object run(const py::object& step_source, const py::object& sync_source, const py::object& out,
               const py::object& prepare_source) {
    const Hook step("step", step_source);
    const Hook sync("sync", sync_source);
    const bool has_prepare = !prepare_source.is_none();
    const Hook prepare("prepare", has_prepare ? prepare_source : step_source);
    py::ssize_t count = 0;
    auto* row = writable_rows(out, count);

    py::object result;
    for (py::ssize_t sample = 0; sample < count; ++sample, row += 3) {
        // Freeing a tensor reaches the framework's allocator, so the last result goes here, between two windows.
        result = py::object();
        if (has_prepare) {
            prepare();
        }
        if (PyErr_CheckSignals() != 0) {
            throw py::error_already_set();
        }
        const auto started = now_ns();
        result = step();
        const auto dispatched = now_ns();
        const py::object synced = sync(result);
        const auto completed = now_ns();
        row[0] = started;
        row[1] = dispatched;
        row[2] = completed;
    }
    return result;
}

py::dict clock_facts() {
    // 100 000 readings take 2 to 4 ms, long enough to meet a timer interrupt and short enough for every start.
    std::vector<std::int64_t> steps(100'000, 0);
    auto last = now_ns();
    for (auto& step : steps) {
        const auto now = now_ns();
        step = now - last;
        last = now;
    }
    std::sort(steps.begin(), steps.end());
    const auto first_positive = std::upper_bound(steps.begin(), steps.end(), 0);
    const auto grid = std::accumulate(first_positive, steps.end(), std::int64_t{0},
                                      [](std::int64_t a, std::int64_t b) { return std::gcd(a, b); });
    py::dict facts;
    facts["name"] = pykvbench::clock_name;
    facts["resolution_ns"] = first_positive == steps.end() ? 0 : *first_positive;
    facts["grid_ns"] = grid;
    facts["overhead_ns"] = steps[steps.size() / 2];
    facts["worst_gap_ns"] = steps.back();
    facts["monotonic"] = steps.front() >= 0;
    return facts;
}

py::tuple usage() {
    timespec cpu;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
    const auto cpu_ns = static_cast<std::int64_t>(cpu.tv_sec) * 1'000'000'000 + cpu.tv_nsec;
#if defined(__APPLE__)
    return py::make_tuple(cpu_ns, 0, 0);  // macOS counts switches by process, which would blame other threads' on this one
#else
    rusage thread;
    getrusage(RUSAGE_THREAD, &thread);
    return py::make_tuple(cpu_ns, thread.ru_nvcsw, thread.ru_nivcsw);
#endif
}

std::string prioritize() {
#if defined(__APPLE__)
    const int status = pthread_set_qos_class_self_np(QOS_CLASS_USER_INITIATED, 0);
    return status == 0 ? "QOS_CLASS_USER_INITIATED" : std::string("refused: ") + std::strerror(status);
#else
    return "not applicable on Linux";
#endif
}

}  // namespace

PYBIND11_MODULE(_timer, m, py::mod_gil_not_used(), py::multiple_interpreters::per_interpreter_gil()) {
    m.doc() = "Stamps around a step and its sync, and what is known of the clock they come from.";
    m.def("now_ns", &now_ns, "Nanoseconds of the raw monotonic clock.");
    m.def("clock", &clock_facts, "Name of the clock and what 100 000 back-to-back readings say about it.");
    m.def("run", &run, py::arg("step"), py::arg("sync"), py::arg("out"), py::arg("prepare") = py::none(),
          "Fill the rows of out with start, dispatched and completed stamps; return the last step's result.");
    m.def("usage", &usage, "CPU time in ns, voluntary and involuntary context switches of the calling thread.");
    m.def("prioritize", &prioritize, "Ask for a high scheduling class for the calling thread; return the outcome.");
}
