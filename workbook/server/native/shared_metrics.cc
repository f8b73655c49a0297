/* Metrics of the same name and labels are one metric, until its last user has ended.

   A Python model can have metrics of its own (pb_utils.MetricFamily), as the vLLM backend has. In
   Triton 24.10, two families with the same name share one family of the Prometheus library, and two of
   their metrics with the same labels share one metric there. If one of the two is removed, it is removed
   for the other, too. So when a model is loaded again, the end of its old instance frees memory to which
   the new instance still writes. Some requests later the server ends by SIGSEGV or SIGABRT, or hangs on
   the lock of its heap.

   This library is preloaded. Its functions TRITONSERVER_MetricFamilyNew and
   TRITONSERVER_MetricNewWithArgs return the same object to all callers that ask for the same family or
   metric. The functions that delete it do so only for the last of these callers. Labels are passed as
   objects of the server; their texts are recorded when they are made (TRITONSERVER_ParameterNew). */

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "next.h"

struct TRITONSERVER_Error;

namespace {

using Error = TRITONSERVER_Error *;

constexpr int STRING = 0; /* TRITONSERVER_PARAMETER_STRING */

std::mutex changes; /* of all that follows */
std::map<const void *, std::string> labels; /* the text of each string parameter that lives */

/* The objects of one kind (families or metrics), by key. */
class Shared {
   public:
    /* Set `object` to the object of this key. If there is none, `make` makes it. */
    template <typename Make>
    Error get(void **object, const std::string &key, Make make) {
        const auto found = by_key_.find(key);
        if (found != by_key_.end()) {
            found->second.users++;
            *object = found->second.object;
            return nullptr;
        }
        const Error error = make();
        if (error == nullptr) by_key_[key] = {*object, 1, ++made_};
        return error;
    }

    /* Whether the caller that gives an object back is its last user. */
    bool is_last(const void *object) {
        const auto found = find(object);
        if (found == by_key_.end()) return true;
        if (--found->second.users > 0) return false;
        by_key_.erase(found);
        return true;
    }

    /* An object's number, which no other one ever has (a later one may have its address); 0 where it
       is not known. */
    uint64_t number(const void *object) {
        const auto found = find(object);
        return found == by_key_.end() ? 0 : found->second.number;
    }

   private:
    struct Used {
        void *object;
        unsigned users;
        uint64_t number;
    };
    using ByKey = std::map<std::string, Used>;

    ByKey::iterator find(const void *object) {
        auto one = by_key_.begin();
        while (one != by_key_.end() && one->second.object != object) ++one;
        return one;
    }

    ByKey by_key_;
    uint64_t made_ = 0;
};

Shared families, metrics;

/* The key of a metric; "" where its family or a label is not known. */
std::string key_of(const void *family, const void *const *given, uint64_t count) {
    const uint64_t number = families.number(family);
    if (number == 0) return "";
    std::string key = std::to_string(number);
    for (uint64_t i = 0; i < count; i++) {
        const auto found = labels.find(given[i]);
        if (found == labels.end()) return "";
        key += '\0' + found->second;
    }
    return key;
}

}  // namespace

extern "C" {

void *TRITONSERVER_ParameterNew(const char *name, int type, const void *value) {
    REAL(TRITONSERVER_ParameterNew);
    void *parameter = real(name, type, value);
    if (parameter != nullptr && type == STRING) {
        const std::lock_guard<std::mutex> lock(changes);
        labels[parameter] = std::string(name) + '\0' + static_cast<const char *>(value);
    }
    return parameter;
}

void TRITONSERVER_ParameterDelete(void *parameter) {
    REAL(TRITONSERVER_ParameterDelete);
    {
        const std::lock_guard<std::mutex> lock(changes);
        labels.erase(parameter);
    }
    real(parameter);
}

Error TRITONSERVER_MetricFamilyNew(
    void **family, int kind, const char *name, const char *description) {
    REAL(TRITONSERVER_MetricFamilyNew);
    const std::lock_guard<std::mutex> lock(changes);
    const std::string key = std::to_string(kind) + '\0' + name; /* the first description stays */
    return families.get(family, key, [&] { return real(family, kind, name, description); });
}

Error TRITONSERVER_MetricFamilyDelete(void *family) {
    REAL(TRITONSERVER_MetricFamilyDelete);
    const std::lock_guard<std::mutex> lock(changes);
    return families.is_last(family) ? real(family) : nullptr;
}

/* TRITONSERVER_MetricNew calls it, too. */
Error TRITONSERVER_MetricNewWithArgs(
    void **metric, void *family, const void **given, uint64_t count, const void *more) {
    REAL(TRITONSERVER_MetricNewWithArgs);
    const std::lock_guard<std::mutex> lock(changes);
    const auto make = [&] { return real(metric, family, given, count, more); };
    const std::string key = key_of(family, given, count);
    return key.empty() ? make() : metrics.get(metric, key, make);
}

Error TRITONSERVER_MetricDelete(void *metric) {
    REAL(TRITONSERVER_MetricDelete);
    const std::lock_guard<std::mutex> lock(changes);
    return metrics.is_last(metric) ? real(metric) : nullptr;
}

}  // extern "C"
