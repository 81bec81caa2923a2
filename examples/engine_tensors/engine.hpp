// SPDX-License-Identifier: MIT
//
// An engine that exists already: its tensors, its file of layers, its allocator and its threads. It knows nothing of
// intq.
#ifndef ENGINE_TENSORS_ENGINE_HPP
#define ENGINE_TENSORS_ENGINE_HPP

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace engine {

/// All memory of the engine: one block that is given out piece by piece, and never taken back.
class Arena {
public:
    void* take(std::size_t bytes, std::size_t alignment) {
        used_ = (used_ + alignment - 1) / alignment * alignment;
        if (used_ + bytes > sizeof block_) throw std::bad_alloc();
        void* const place = block_ + used_;
        used_ += bytes;
        return place;
    }
    std::size_t used() const { return used_; }

private:
    alignas(64) unsigned char block_[256 * 1024];
    std::size_t used_ = 0;
};

/// Pictures of int8 codes: rows from top to bottom, the channels of a pixel next to each other.
struct Tensor {
    int height, width, channels;
    std::int8_t* data;

    Tensor(int rows, int columns, int planes, Arena& arena)
        : height(rows),
          width(columns),
          channels(planes),
          data(static_cast<std::int8_t*>(arena.take(static_cast<std::size_t>(rows * columns * planes), 64))) {}
    std::int8_t& at(int y, int x, int c) const { return data[(y * width + x) * channels + c]; }
};

/// The engine's multiplier of an output channel, mantissa / 2^exponent: code = (sum · mantissa + 2^(exponent - 1)) >>
/// exponent. The mantissa has 15 bits, its highest one set.
struct Scale {
    std::int32_t mantissa, exponent;
};

/// A convolution of the engine's file.
struct Layer {
    std::string name;
    int inputs, outputs, groups, kernel, stride, padding;
    int input_zero_point, output_zero_point;
    std::vector<Scale> scales;         // of each output
    std::vector<std::int32_t> bias;    // of each output
    std::vector<std::int8_t> weights;  // output, input of its group, row, column
};

/// Reads the engine's own file of layers.
inline std::vector<Layer> read_layers(const std::string& path) {
    std::ifstream file(path);
    std::vector<Layer> layers;
    const auto number = [&] {
        int value = 0;
        if (!(file >> value)) throw std::runtime_error(path + ": a number is missing");
        return value;
    };
    Layer layer;
    while (file >> layer.name) {
        for (int* const field : {&layer.inputs, &layer.outputs, &layer.groups, &layer.kernel, &layer.stride,
                                 &layer.padding, &layer.input_zero_point, &layer.output_zero_point})
            *field = number();
        layer.scales.clear(), layer.bias.clear(), layer.weights.clear();
        for (int i = 0; i < layer.outputs; ++i) {
            const std::int32_t mantissa = number();
            layer.scales.push_back({mantissa, number()});
            layer.bias.push_back(number());
        }
        const int weights = layer.outputs * layer.inputs / layer.groups * layer.kernel * layer.kernel;
        for (int i = 0; i < weights; ++i) layer.weights.push_back(static_cast<std::int8_t>(number()));
        layers.push_back(layer);
    }
    if (layers.empty()) throw std::runtime_error(path + ": it holds no layer");
    return layers;
}

/// The engine's threads, which run `count` jobs and then wait for more.
class Workers {
public:
    using Job = void (*)(void* state, std::ptrdiff_t index);

    explicit Workers(int threads) {
        for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
    }
    ~Workers() {
        {
            const std::lock_guard lock(mutex_);
            ends_ = true;
        }
        changed_.notify_all();
        for (std::thread& thread : threads_) thread.join();
    }
    Workers(const Workers&) = delete;
    Workers& operator=(const Workers&) = delete;

    /// Returns when all jobs ran.
    void run(std::ptrdiff_t count, Job job, void* state) {
        std::unique_lock lock(mutex_);
        job_ = job, state_ = state, next_ = 0, count_ = count, left_ = count;
        changed_.notify_all();
        done_.wait(lock, [this] { return left_ == 0; });
        jobs_ += count;
    }
    std::ptrdiff_t jobs() const { return jobs_; }

private:
    void work() {
        std::unique_lock lock(mutex_);
        for (;;) {
            changed_.wait(lock, [this] { return ends_ || next_ < count_; });
            if (ends_) return;
            const std::ptrdiff_t index = next_++;
            lock.unlock();
            job_(state_, index);
            lock.lock();
            if (--left_ == 0) done_.notify_one();
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_, done_;
    Job job_ = nullptr;
    void* state_ = nullptr;
    std::ptrdiff_t next_ = 0, count_ = 0, left_ = 0, jobs_ = 0;
    bool ends_ = false;
    std::vector<std::thread> threads_;
};

/// The engine's own loop over a layer, which is what its kernels were so far.
inline void convolve_plainly(const Layer& layer, const Tensor& x, const Tensor& y) {
    const int of_group = layer.inputs / layer.groups;
    for (int row = 0; row < y.height; ++row)
        for (int column = 0; column < y.width; ++column)
            for (int out = 0; out < layer.outputs; ++out) {
                const int first = out / (layer.outputs / layer.groups) * of_group;
                std::int64_t sum = layer.bias[static_cast<std::size_t>(out)];
                for (int in = 0; in < of_group; ++in)
                    for (int i = 0; i < layer.kernel; ++i)
                        for (int k = 0; k < layer.kernel; ++k) {
                            const int from_row = row * layer.stride + i - layer.padding,
                                      from_column = column * layer.stride + k - layer.padding;
                            if (from_row < 0 || from_column < 0 || from_row >= x.height || from_column >= x.width)
                                continue;
                            const int weight = ((out * of_group + in) * layer.kernel + i) * layer.kernel + k;
                            sum += (x.at(from_row, from_column, first + in) - layer.input_zero_point) *
                                   layer.weights[static_cast<std::size_t>(weight)];
                        }
                const Scale scale = layer.scales[static_cast<std::size_t>(out)];
                const std::int64_t half = std::int64_t{1} << (scale.exponent - 1);
                const std::int64_t code = ((sum * scale.mantissa + half) >> scale.exponent) + layer.output_zero_point;
                y.at(row, column, out) = static_cast<std::int8_t>(code < -128 ? -128 : code > 127 ? 127 : code);
            }
}

}  // namespace engine

#endif  // ENGINE_TENSORS_ENGINE_HPP
