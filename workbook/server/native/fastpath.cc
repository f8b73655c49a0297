/* Runs plain ONNX models inside tritonserver, as NVIDIA's ONNX Runtime backend does.

   The server loads this library in place of its Python backend. Every call is passed on to that
   backend's own library, so that Python models and Python-based backends work unchanged. There is
   one exception. The ONNX Runtime stand-in loads and checks each model in a Python process. If the
   model is plain, that process describes it in a few lines (an "offer", written by
   workbook/backends/onnxruntime/fastpath.py) in a memory file that it shares with the server. From
   then on this library batches, runs and answers the requests of that instance. Errors have the
   same text as the stand-in's. A request of a small model takes a third of the processor time.

   This file declares the used parts of two C interfaces: Triton's backend API
   (triton-inference-server/core, include/triton/core/tritonbackend.h and tritonserver.h), and ONNX
   Runtime's table of functions (onnxruntime_c_api.h), to which later versions only append.
   README.md in this folder says how to check them against another version. */

#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

// -- Triton -----------------------------------------------------------------------------------

struct TRITONSERVER_Error;
struct TRITONBACKEND_Backend;
struct TRITONBACKEND_BackendAttribute;
struct TRITONBACKEND_Model;
struct TRITONBACKEND_ModelInstance;
struct TRITONBACKEND_Request;
struct TRITONBACKEND_Input;
struct TRITONBACKEND_Response;
struct TRITONBACKEND_Output;

#define API extern "C" TRITONSERVER_Error*

API TRITONSERVER_ErrorNew(int code, const char* message);
extern "C" void TRITONSERVER_ErrorDelete(TRITONSERVER_Error*);
extern "C" const char* TRITONSERVER_ErrorMessage(TRITONSERVER_Error*);
API TRITONBACKEND_ModelVersion(TRITONBACKEND_Model*, uint64_t*);
API TRITONBACKEND_ModelInstanceName(TRITONBACKEND_ModelInstance*, const char**);
API TRITONBACKEND_ModelInstanceModel(TRITONBACKEND_ModelInstance*, TRITONBACKEND_Model**);
API TRITONBACKEND_ModelInstanceReportStatistics(TRITONBACKEND_ModelInstance*,
    TRITONBACKEND_Request*, bool success, uint64_t exec_start, uint64_t compute_start,
    uint64_t compute_end, uint64_t exec_end);
API TRITONBACKEND_ModelInstanceReportBatchStatistics(TRITONBACKEND_ModelInstance*, uint64_t rows,
    uint64_t exec_start, uint64_t compute_start, uint64_t compute_end, uint64_t exec_end);
API TRITONBACKEND_RequestInput(TRITONBACKEND_Request*, const char* name, TRITONBACKEND_Input**);
API TRITONBACKEND_RequestOutputCount(TRITONBACKEND_Request*, uint32_t*);
API TRITONBACKEND_RequestOutputName(TRITONBACKEND_Request*, uint32_t, const char**);
API TRITONBACKEND_RequestRelease(TRITONBACKEND_Request*, uint32_t flags);
API TRITONBACKEND_InputProperties(TRITONBACKEND_Input*, const char** name, int* type,
    const int64_t** shape, uint32_t* dims, uint64_t* bytes, uint32_t* buffers);
API TRITONBACKEND_InputBuffer(TRITONBACKEND_Input*, uint32_t, const void**, uint64_t* bytes,
    int* memory, int64_t* device);
API TRITONBACKEND_ResponseNew(TRITONBACKEND_Response**, TRITONBACKEND_Request*);
API TRITONBACKEND_ResponseDelete(TRITONBACKEND_Response*);
API TRITONBACKEND_ResponseOutput(TRITONBACKEND_Response*, TRITONBACKEND_Output**, const char* name,
    int type, const int64_t* shape, uint32_t dims);
API TRITONBACKEND_OutputBuffer(TRITONBACKEND_Output*, void**, uint64_t bytes, int* memory,
    int64_t* device);
API TRITONBACKEND_ResponseSend(TRITONBACKEND_Response*, uint32_t flags, TRITONSERVER_Error*);

/* revive.cc, if it is preloaded. */
#define PRELOADED extern "C" __attribute__((weak))
PRELOADED void workbook_started(TRITONBACKEND_ModelInstance*);
PRELOADED int workbook_ends(TRITONBACKEND_ModelInstance*);
PRELOADED void workbook_ended(int stub);
PRELOADED int workbook_executes(TRITONBACKEND_ModelInstance*, char* words, size_t size);
PRELOADED void workbook_executed();

namespace {

constexpr int kInternal = 1;           // TRITONSERVER_ERROR_INTERNAL
constexpr int kInvalidArgument = 3;    // TRITONSERVER_ERROR_INVALID_ARG
constexpr int kUnavailable = 4;        // TRITONSERVER_ERROR_UNAVAILABLE
constexpr int kOnGpu = 2;              // TRITONSERVER_MEMORY_GPU; 0 and 1 are the CPU's
constexpr uint32_t kReleaseAll = 1;    // TRITONSERVER_REQUEST_RELEASE_ALL
constexpr uint32_t kFinal = 1;         // TRITONSERVER_RESPONSE_COMPLETE_FINAL

/* Element types: the index is TRITONSERVER_DataType, `onnx` is ONNXTensorElementDataType, `size` is
   in bytes. */
struct Type {
    int onnx;
    size_t size;
};
constexpr Type kTypes[] = {
    {0, 0},   // invalid
    {9, 1},   // BOOL
    {2, 1},   // UINT8
    {4, 2},   // UINT16
    {12, 4},  // UINT32
    {13, 8},  // UINT64
    {3, 1},   // INT8
    {5, 2},   // INT16
    {6, 4},   // INT32
    {7, 8},   // INT64
    {10, 2},  // FP16
    {1, 4},   // FP32
    {11, 8},  // FP64
};
constexpr int kTypeCount = sizeof kTypes / sizeof *kTypes;

/* An error. Its text is sent to the client: the request failed, or the model did not load. */
struct Failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/* Throws Triton's error, if it is one, as a Failure. */
void Check(TRITONSERVER_Error* error) {
    if (error == nullptr) return;
    Failure failure{TRITONSERVER_ErrorMessage(error)};
    TRITONSERVER_ErrorDelete(error);
    throw failure;
}

/* Ignores the error of a call: it cannot be reported to anybody. */
void Ignore(TRITONSERVER_Error* error) {
    if (error != nullptr) TRITONSERVER_ErrorDelete(error);
}

/* The time in nanoseconds, on the clock that Triton's statistics use. */
uint64_t Now() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}

// -- ONNX Runtime -----------------------------------------------------------------------------

/* Indices in ONNX Runtime's table of functions (struct OrtApi). */
enum Place {
    kGetErrorCode = 1,
    kGetErrorMessage = 2,
    kCreateEnv = 3,
    kCreateSession = 7,
    kRun = 9,
    kCreateSessionOptions = 10,
    kSetSessionExecutionMode = 13,
    kEnableMemPattern = 16,
    kDisableMemPattern = 17,
    kEnableCpuMemArena = 18,
    kDisableCpuMemArena = 19,
    kSetSessionGraphOptimizationLevel = 23,
    kSetIntraOpNumThreads = 24,
    kSetInterOpNumThreads = 25,
    kCreateTensorWithDataAsOrtValue = 49,
    kGetTensorMutableData = 51,
    kGetTensorElementType = 60,
    kGetDimensionsCount = 61,
    kGetDimensions = 62,
    kGetTensorTypeAndShape = 65,
    kCreateCpuMemoryInfo = 69,
    kReleaseStatus = 93,
    kReleaseSession = 95,
    kReleaseValue = 96,
    kReleaseTensorTypeAndShapeInfo = 99,
    kReleaseSessionOptions = 100,
};

class OnnxRuntime {
   public:
    /* The library; opened on first use. Throws Failure if it cannot be opened. */
    static OnnxRuntime& Get() {
        static OnnxRuntime it;
        return it;
    }

    /* Calls a function of the table that reports a status. Throws Failure with its message. */
    template <class... Arguments>
    void Call(Place place, Arguments... arguments) {
        using Function = void* (*)(Arguments...);
        void* status = reinterpret_cast<Function>(table_[place])(arguments...);
        if (status == nullptr) return;
        auto code = reinterpret_cast<int (*)(void*)>(table_[kGetErrorCode])(status);
        auto words = reinterpret_cast<const char* (*)(void*)>(table_[kGetErrorMessage])(status);
        Failure failure{"onnx runtime error " + std::to_string(code) + ": " + words};
        Release(kReleaseStatus, status);
        throw failure;
    }

    void Release(Place place, void* object) {
        reinterpret_cast<void (*)(void*)>(table_[place])(object);
    }

    void* environment = nullptr;
    void* cpu = nullptr;

   private:
    OnnxRuntime() {
        void* library = dlopen(ONNXRUNTIME, RTLD_NOW | RTLD_LOCAL);
        void* base = library == nullptr ? nullptr : dlsym(library, "OrtGetApiBase");
        if (base == nullptr) throw Failure{std::string("cannot open ONNX Runtime: ") + dlerror()};
        using Table = void**;
        auto get = *reinterpret_cast<Table (**)(uint32_t)>(reinterpret_cast<void* (*)()>(base)());
        table_ = get(1);  // version 1 has every function that is called here
        const int warning = 2, arena = 0, usual = 0;
        Call(kCreateEnv, warning, "triton", &environment);
        Call(kCreateCpuMemoryInfo, arena, usual, &cpu);
    }

    void** table_ = nullptr;
};

/* Owns an object of ONNX Runtime, and releases it. */
template <Place release>
class Owned {
   public:
    Owned() = default;
    Owned(const Owned&) = delete;
    Owned& operator=(const Owned&) = delete;
    ~Owned() {
        if (object_ != nullptr) OnnxRuntime::Get().Release(release, object_);
    }
    /* The address to which ONNX Runtime writes a new object. */
    void** New() { return &object_; }
    operator void*() const { return object_; }

   private:
    void* object_ = nullptr;
};
using Session = Owned<kReleaseSession>;
using Options = Owned<kReleaseSessionOptions>;
using Value = Owned<kReleaseValue>;
using TypeAndShape = Owned<kReleaseTensorTypeAndShapeInfo>;

// -- what the stand-in offers -----------------------------------------------------------------

/* A plain model: its file, the options of its session, whether max_batch_size > 0 (`batches`), and
   the names of its tensors in the config's order. */
struct Offer {
    std::string file;
    int intra = 0, inter = 0, mode = 0, level = 99, arena = 1, pattern = 1, batches = 0;
    std::vector<std::string> inputs, outputs;
};

/* The descriptor of a nameless file in memory. The stand-ins' processes inherit it, and append
   their offers to it. They recognize it by its first line. -1 if there is no /dev/shm: then there
   are no offers, and every model runs in its own process. */
int Offers() {
    static const int file = [] {
        const std::string first = "triton-fastpath\n";
        const int made = open("/dev/shm", O_TMPFILE | O_RDWR | O_APPEND, 0600);
        if (made >= 0 && write(made, first.data(), first.size()) < 0) return -1;
        return made;
    }();
    return file;
}

/* The position at which the next offer will begin. */
off_t EndOfOffers() {
    struct stat status;
    return fstat(Offers(), &status) == 0 ? status.st_size : 0;
}

/* Finds the last offer of an instance ("NAME VERSION"), from a position on. Earlier offers are from
   models of the same name that were loaded before. An offer is a line `offer NAME VERSION`, lines
   of a key and its value, and a line `end`. */
bool FindOffer(const std::string& instance, off_t from, Offer* found) {
    std::string text(std::max<off_t>(EndOfOffers() - from, 0), '\0');
    const ssize_t size = pread(Offers(), text.data(), text.size(), from);
    if (size < 0) return false;
    text.resize(size);
    const std::string head = "offer " + instance + "\n";
    size_t at = text.rfind(head);
    if (at == std::string::npos) return false;
    const std::map<std::string, int*> numbers = {
        {"intra", &found->intra}, {"inter", &found->inter}, {"mode", &found->mode},
        {"level", &found->level}, {"arena", &found->arena}, {"pattern", &found->pattern},
        {"batches", &found->batches}};
    std::istringstream lines(text.substr(at + head.size()));
    for (std::string line; std::getline(lines, line) && line != "end";) {
        const size_t space = line.find(' ');
        if (space == std::string::npos) return false;
        const std::string key = line.substr(0, space), value = line.substr(space + 1);
        if (auto number = numbers.find(key); number != numbers.end())
            *number->second = std::atoi(value.c_str());
        if (key == "file") found->file = value;
        if (key == "input") found->inputs.push_back(value);
        if (key == "output") found->outputs.push_back(value);
    }
    return true;
}

// -- an instance ------------------------------------------------------------------------------

/* An instance of a plain model. Triton calls Execute from one thread at a time. */
class Instance {
   public:
    Instance(TRITONBACKEND_ModelInstance* handle, Offer offer)
        : handle_(handle), offer_(std::move(offer)), joined_(offer_.inputs.size()) {
        OnnxRuntime& ort = OnnxRuntime::Get();
        Options options;
        ort.Call(kCreateSessionOptions, options.New());
        void* o = options;
        ort.Call(kSetIntraOpNumThreads, o, offer_.intra);
        ort.Call(kSetInterOpNumThreads, o, offer_.inter);
        ort.Call(kSetSessionExecutionMode, o, offer_.mode);
        ort.Call(kSetSessionGraphOptimizationLevel, o, offer_.level);
        ort.Call(offer_.arena ? kEnableCpuMemArena : kDisableCpuMemArena, o);
        ort.Call(offer_.pattern ? kEnableMemPattern : kDisableMemPattern, o);
        ort.Call(kCreateSession, ort.environment, offer_.file.c_str(), o, session_.New());
    }

    /* Sends a response for every request, reports the statistics, and releases the requests. */
    void Execute(TRITONBACKEND_Request** requests, uint32_t count) {
        const uint64_t start = compute_start_ = compute_end_ = Now();
        computed_ = false;
        std::vector<Answer> answers(count);
        for (uint32_t i = 0; i < count; i++) answers[i].request = requests[i];
        if (count == 1 || !offer_.batches || !Together(answers))
            for (Answer& answer : answers) Alone(answer);
        uint64_t rows = 0;
        for (Answer& answer : answers) {
            rows += answer.rows;
            Send(answer);
        }
        const uint64_t end = Now();
        for (Answer& answer : answers) {
            Ignore(TRITONBACKEND_ModelInstanceReportStatistics(handle_, answer.request,
                answer.failure.empty(), start, compute_start_, compute_end_, end));
            Ignore(TRITONBACKEND_RequestRelease(answer.request, kReleaseAll));
        }
        Ignore(TRITONBACKEND_ModelInstanceReportBatchStatistics(
            handle_, rows, start, compute_start_, compute_end_, end));
    }

   private:
    struct Answer {
        TRITONBACKEND_Request* request = nullptr;
        TRITONBACKEND_Response* response = nullptr;
        std::string failure;  // the error to send in place of outputs; empty: none
        uint64_t rows = 1;
        std::vector<bool> wanted;  // for each output of the model: did the client ask for it?
    };

    /* Runs all requests as one batch. If that fails, it sends no response and returns false. The
       caller then runs each request by itself, so that only the wrong requests fail. */
    bool Together(std::vector<Answer>& answers) {
        try {
            Run(answers.data(), answers.size());
            return true;
        } catch (const std::exception&) {
            for (Answer& answer : answers) Drop(answer);
            return false;
        }
    }

    /* Runs one request by itself. If it fails, it keeps the error to send. */
    void Alone(Answer& answer) {
        try {
            Run(&answer, 1);
        } catch (const std::exception& error) {
            Drop(answer);
            answer.failure = error.what();
        }
    }

    /* Deletes a response that has not been sent. */
    void Drop(Answer& answer) {
        if (answer.response != nullptr) Ignore(TRITONBACKEND_ResponseDelete(answer.response));
        answer.response = nullptr;
        answer.failure.clear();
    }

    /* Runs requests as one batch, and makes their responses without sending them. */
    void Run(Answer* answers, size_t count) {
        OnnxRuntime& ort = OnnxRuntime::Get();
        const size_t inputs = offer_.inputs.size();
        std::vector<Value> given(inputs);
        std::vector<void*> values(inputs);
        std::vector<const char*> names(inputs);
        for (size_t i = 0; i < inputs; i++) {
            Gather(i, answers, count, given[i].New());
            values[i] = given[i];
            names[i] = offer_.inputs[i].c_str();
        }
        std::vector<const char*> wanted;
        std::vector<size_t> place(offer_.outputs.size());
        ReadWanted(answers, count);
        for (size_t o = 0; o < offer_.outputs.size(); o++) {
            for (size_t i = 0; i < count; i++) {
                if (!answers[i].wanted[o]) continue;
                place[o] = wanted.size();
                wanted.push_back(offer_.outputs[o].c_str());
                break;
            }
        }
        std::vector<Value> results(wanted.size());
        std::vector<void*> raw(wanted.size());
        if (!computed_) compute_start_ = Now();
        computed_ = true;
        if (!wanted.empty()) {
            void* no_options = nullptr;
            ort.Call(kRun, static_cast<void*>(session_), no_options, names.data(), values.data(),
                inputs, wanted.data(), wanted.size(), raw.data());
        }
        compute_end_ = Now();
        for (size_t r = 0; r < raw.size(); r++) *results[r].New() = raw[r];
        for (size_t i = 0; i < count; i++)
            Check(TRITONBACKEND_ResponseNew(&answers[i].response, answers[i].request));
        for (size_t o = 0; o < offer_.outputs.size(); o++)
            if (!wanted.empty()) Scatter(o, results[place[o]], answers, count);
    }

    /* Makes the tensor of one input of a batch. If the data is one piece (one request, one buffer),
       it is used without a copy. Otherwise the pieces are copied one after the other. */
    void Gather(size_t number, Answer* answers, size_t count, void** made) {
        std::vector<int64_t> shape;
        std::vector<char>& joined = joined_[number];
        const void* data = nullptr;
        uint64_t size = 0;
        int type = 0;
        joined.clear();
        for (size_t i = 0; i < count; i++) {
            TRITONBACKEND_Input* input;
            Check(TRITONBACKEND_RequestInput(
                answers[i].request, offer_.inputs[number].c_str(), &input));
            const int64_t* its;
            uint32_t dims, buffers;
            uint64_t bytes;
            Check(TRITONBACKEND_InputProperties(
                input, nullptr, &type, &its, &dims, &bytes, &buffers));
            if (dims == 0 && offer_.batches) throw Failure{"an input has no dimension for rows"};
            if (number == 0 && offer_.batches) answers[i].rows = its[0];
            if (i == 0)
                shape.assign(its, its + dims);
            else if (dims != shape.size() || !std::equal(its + 1, its + dims, shape.begin() + 1))
                throw Failure{"the requests differ in shape"};
            else
                shape[0] += its[0];
            size += bytes;
            for (uint32_t b = 0; b < buffers; b++) {
                const void* piece;
                uint64_t length;
                int memory = 0;
                int64_t device = 0;
                Check(TRITONBACKEND_InputBuffer(input, b, &piece, &length, &memory, &device));
                if (memory == kOnGpu) throw Failure{"an input lies in the memory of a GPU"};
                if (count == 1 && buffers == 1) {
                    data = piece;
                } else {
                    const char* begin = static_cast<const char*>(piece);
                    joined.insert(joined.end(), begin, begin + length);
                }
            }
        }
        if (data == nullptr) {
            joined.reserve(1);  // ONNX Runtime wants an address for an empty tensor, too
            data = joined.data();
        }
        OnnxRuntime& ort = OnnxRuntime::Get();
        const int onnx = type < kTypeCount ? kTypes[type].onnx : 0;
        ort.Call(kCreateTensorWithDataAsOrtValue, ort.cpu, const_cast<void*>(data),
            static_cast<size_t>(size), static_cast<const int64_t*>(shape.data()), shape.size(),
            onnx, made);
    }

    /* Finds out which outputs each request asks for. */
    void ReadWanted(Answer* answers, size_t count) {
        for (size_t i = 0; i < count; i++) {
            uint32_t asked;
            Check(TRITONBACKEND_RequestOutputCount(answers[i].request, &asked));
            answers[i].wanted.assign(offer_.outputs.size(), false);
            for (uint32_t a = 0; a < asked; a++) {
                const char* name;
                Check(TRITONBACKEND_RequestOutputName(answers[i].request, a, &name));
                for (size_t o = 0; o < offer_.outputs.size(); o++)
                    if (offer_.outputs[o] == name) answers[i].wanted[o] = true;
            }
        }
    }

    /* Copies one output's rows into the responses of the requests that asked for it. A request
       whose rows the output lacks gets an error, as from Triton's own backends. */
    void Scatter(size_t number, void* whole, Answer* answers, size_t count) {
        OnnxRuntime& ort = OnnxRuntime::Get();
        const char* name = offer_.outputs[number].c_str();
        const char* data = nullptr;
        std::vector<int64_t> shape;
        int type = 0;
        uint64_t row = 0, rows = 0, next = 0;
        for (size_t i = 0; i < count; i++) {
            Answer& answer = answers[i];
            if (answer.wanted[number]) {
                if (data == nullptr) {
                    TypeAndShape info;
                    size_t dims;
                    int onnx;
                    ort.Call(kGetTensorTypeAndShape, whole, info.New());
                    ort.Call(kGetTensorElementType, static_cast<void*>(info), &onnx);
                    ort.Call(kGetDimensionsCount, static_cast<void*>(info), &dims);
                    shape.resize(dims);
                    ort.Call(kGetDimensions, static_cast<void*>(info), shape.data(), dims);
                    ort.Call(kGetTensorMutableData, whole, &data);
                    while (type < kTypeCount && kTypes[type].onnx != onnx) type++;
                    if (type == kTypeCount) throw Failure{std::string("output '") + name +
                        "' has a type that its configuration does not name"};
                    row = kTypes[type].size;
                    for (size_t d = offer_.batches ? 1 : 0; d < dims; d++) row *= shape[d];
                    rows = offer_.batches ? (dims == 0 ? 0 : shape[0]) : 1;
                }
                if (next + answer.rows > rows) {
                    if (answer.failure.empty())
                        answer.failure = std::string("failed to split the output tensor '") +
                            name + "' in responses: expected batch size of at least " +
                            std::to_string(next + answer.rows) + " in model output, got " +
                            std::to_string(shape.empty() ? 1 : rows);
                    next += answer.rows;
                    continue;
                }
                if (offer_.batches) shape[0] = answer.rows;
                TRITONBACKEND_Output* output;
                Check(TRITONBACKEND_ResponseOutput(
                    answer.response, &output, name, type, shape.data(), shape.size()));
                void* buffer;
                int memory = 0;
                int64_t device = 0;
                const uint64_t size = row * answer.rows;
                Check(TRITONBACKEND_OutputBuffer(output, &buffer, size, &memory, &device));
                if (memory == kOnGpu) throw Failure{"an output is to lie in a GPU's memory"};
                if (size != 0) std::memcpy(buffer, data + row * next, size);
            }
            next += answer.rows;
        }
    }

    /* Sends a request's response, or its error. */
    void Send(Answer& answer) {
        const std::string& words = answer.failure;
        TRITONSERVER_Error* error =
            words.empty() ? nullptr : TRITONSERVER_ErrorNew(kInternal, words.c_str());
        if (answer.response == nullptr)
            Ignore(TRITONBACKEND_ResponseNew(&answer.response, answer.request));
        if (answer.response != nullptr)
            Ignore(TRITONBACKEND_ResponseSend(answer.response, kFinal, error));
        if (error != nullptr) TRITONSERVER_ErrorDelete(error);
    }

    TRITONBACKEND_ModelInstance* handle_;
    Offer offer_;
    std::vector<std::vector<char>> joined_;  // for each input; kept to reuse the memory
    Session session_;
    uint64_t compute_start_ = 0, compute_end_ = 0;  // ns, of the calls of ONNX Runtime
    bool computed_ = false;                         // whether compute_start_ has been set
};

/* The instances whose requests are answered here. */
std::shared_mutex table_lock;
std::unordered_map<TRITONBACKEND_ModelInstance*, std::unique_ptr<Instance>> table;

/* The instance of a handle; null if its requests go to its Python process. */
Instance* Find(TRITONBACKEND_ModelInstance* handle) {
    std::shared_lock<std::shared_mutex> hold(table_lock);
    auto found = table.find(handle);
    return found == table.end() ? nullptr : found->second.get();
}

/* Makes an Instance if the handle's Python process has offered it, at or after position `from`. */
void Take(TRITONBACKEND_ModelInstance* handle, off_t from) {
    const char* name;
    TRITONBACKEND_Model* model;
    uint64_t version;
    Check(TRITONBACKEND_ModelInstanceName(handle, &name));
    Check(TRITONBACKEND_ModelInstanceModel(handle, &model));
    Check(TRITONBACKEND_ModelVersion(model, &version));
    Offer offer;
    if (!FindOffer(std::string(name) + " " + std::to_string(version), from, &offer)) return;
    auto instance = std::make_unique<Instance>(handle, std::move(offer));
    std::unique_lock<std::shared_mutex> hold(table_lock);
    table[handle] = std::move(instance);
}

/* Answers requests with an error, and releases them. */
void Refuse(TRITONBACKEND_ModelInstance* handle, TRITONBACKEND_Request** requests, uint32_t count,
    const char* words) {
    const uint64_t now = Now();
    TRITONSERVER_Error* error = TRITONSERVER_ErrorNew(kUnavailable, words);
    for (uint32_t i = 0; i < count; i++) {
        TRITONBACKEND_Response* response = nullptr;
        Ignore(TRITONBACKEND_ResponseNew(&response, requests[i]));
        if (response != nullptr) Ignore(TRITONBACKEND_ResponseSend(response, kFinal, error));
        Ignore(TRITONBACKEND_ModelInstanceReportStatistics(
            handle, requests[i], false, now, now, now, now));
        Ignore(TRITONBACKEND_RequestRelease(requests[i], kReleaseAll));
    }
    TRITONSERVER_ErrorDelete(error);
}

/* The error of a model that did not load, as the real backend reports it. Triton's Python backend
   makes each exception an internal error, and adds the exception's name and its traceback:
   "BadModel: WORDS\n\nAt:\n  FILE(LINE): FUNCTION". If the traceback has a place in
   workbook/backends/base.py, it is a stand-in's error: only WORDS are kept, and the error gets the
   code that belongs to the name. */
TRITONSERVER_Error* AsTheRealBackend(TRITONSERVER_Error* error) {
    static const std::pair<std::string, int> kinds[] = {{"BadModel: ", kInvalidArgument},
        {"MissingModel: ", kUnavailable}, {"BrokenModel: ", kInternal}};
    if (error == nullptr) return nullptr;
    const std::string text = TRITONSERVER_ErrorMessage(error);
    const size_t places = text.rfind("\n\nAt:\n");
    if (places == std::string::npos) return error;
    if (text.find("/workbook/backends/base.py(", places) == std::string::npos) return error;
    for (const auto& [name, code] : kinds) {
        if (text.compare(0, name.size(), name) != 0) continue;
        TRITONSERVER_ErrorDelete(error);
        return TRITONSERVER_ErrorNew(code, text.substr(name.size(), places - name.size()).c_str());
    }
    return error;
}

/* A function of Triton's own Python backend; null if its library, beside this one, is missing. */
template <class... Arguments>
auto Theirs(const char* name, TRITONSERVER_Error* (*)(Arguments...)) {
    static void* library = [] {
        Dl_info self;
        dladdr(reinterpret_cast<void*>(&Find), &self);
        std::string path(self.dli_fname);
        path = path.substr(0, path.rfind('/') + 1) + PYTHON_BACKEND;
        return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    }();
    void* function = library == nullptr ? nullptr : dlsym(library, name);
    return reinterpret_cast<TRITONSERVER_Error* (*)(Arguments...)>(function);
}

}  // namespace

// -- what the server calls --------------------------------------------------------------------

#define ENTRY extern "C" __attribute__((visibility("default"))) TRITONSERVER_Error*

/* Passes a call on to the Python backend's function of the same name. */
#define PASS_ON(NAME, ...)                                          \
    [&] {                                                           \
        static const auto theirs = Theirs(#NAME, &NAME);            \
        return theirs == nullptr ? Missing() : theirs(__VA_ARGS__); \
    }()

static TRITONSERVER_Error* Missing() {
    return TRITONSERVER_ErrorNew(kInternal, "the Python backend's own library is missing");
}

ENTRY TRITONBACKEND_Initialize(TRITONBACKEND_Backend* backend) {
    Offers();  // made before the first stub starts, which inherits it
    return PASS_ON(TRITONBACKEND_Initialize, backend);
}

ENTRY TRITONBACKEND_Finalize(TRITONBACKEND_Backend* backend) {
    return PASS_ON(TRITONBACKEND_Finalize, backend);
}

ENTRY TRITONBACKEND_GetBackendAttribute(
    TRITONBACKEND_Backend* backend, TRITONBACKEND_BackendAttribute* attributes) {
    return PASS_ON(TRITONBACKEND_GetBackendAttribute, backend, attributes);
}

ENTRY TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model* model) {
    return AsTheRealBackend(PASS_ON(TRITONBACKEND_ModelInitialize, model));
}

ENTRY TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model* model) {
    TRITONSERVER_Error* error = PASS_ON(TRITONBACKEND_ModelFinalize, model);
    // The model's freed memory lies between blocks that are in use, and glibc keeps such pages. If
    // models change under load, the server would grow with each change.
    malloc_trim(0);
    return error;
}

ENTRY TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance* instance) {
    std::unique_ptr<Instance> taken;
    {
        std::unique_lock<std::shared_mutex> hold(table_lock);
        auto found = table.find(instance);
        if (found != table.end()) {
            taken = std::move(found->second);
            table.erase(found);
        }
    }
    const int stub = workbook_ends == nullptr ? 0 : workbook_ends(instance);
    TRITONSERVER_Error* error = PASS_ON(TRITONBACKEND_ModelInstanceFinalize, instance);
    if (workbook_ended != nullptr) workbook_ended(stub);
    return error;
}

ENTRY TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance* instance) {
    const off_t from = EndOfOffers();
    TRITONSERVER_Error* error = PASS_ON(TRITONBACKEND_ModelInstanceInitialize, instance);
    if (error != nullptr) return AsTheRealBackend(error);
    try {
        if (workbook_started != nullptr) workbook_started(instance);
        Take(instance, from);
        return nullptr;
    } catch (const std::exception& error) {  // the core then finalizes the instance
        return TRITONSERVER_ErrorNew(kInternal, error.what());
    }
}

ENTRY TRITONBACKEND_ModelInstanceExecute(
    TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request** requests, uint32_t count) {
    if (Instance* taken = Find(instance)) {
        taken->Execute(requests, count);
        return nullptr;
    }
    if (workbook_executes == nullptr)
        return PASS_ON(TRITONBACKEND_ModelInstanceExecute, instance, requests, count);
    char words[512];
    if (workbook_executes(instance, words, sizeof words)) {
        Refuse(instance, requests, count, words);
        return nullptr;
    }
    TRITONSERVER_Error* error =
        PASS_ON(TRITONBACKEND_ModelInstanceExecute, instance, requests, count);
    workbook_executed();
    return error;
}
