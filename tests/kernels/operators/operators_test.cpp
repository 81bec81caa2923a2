// SPDX-License-Identifier: MIT
//
// lookup_table, interpolate, pad, mul and the moves as instructions of a program: run, and refused where a part is
// wrong.
#include "intq/kernels/operators/operator_table.hpp"

#include <cstring>

#include "intq/runtime/execute.hpp"
#include "kernels/oracle_bridge.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"
#include "support/one_instruction.hpp"

namespace {

using namespace intq;
using namespace intq::test;
using kernels::KernelTable;

std::vector<std::int8_t> some_codes(index_t count) {
    Draw draw(7);
    std::vector<std::int8_t> codes;
    for (index_t i = 0; i < count; ++i) codes.push_back(static_cast<std::int8_t>(draw.between(-128, 127)));
    return codes;
}

/// visit(table) for every backend and target.
template <class Visit> void for_each_table(Visit&& visit) {
    for (const BackendTables& backend : usable_backend_tables())
        for (const KernelTable* table : backend.tables) visit(*table);
}

const Shape image(2, 3, 4, 5);

}  // namespace

TEST_CASE("a table instruction looks every code up; another size, type or no table is refused") {
    std::int8_t entries[arith::int8_table_size];
    for (int i = 0; i < 256; ++i) entries[i] = static_cast<std::int8_t>(127 - i);
    kernels::LookUpParams step{entries, 256};
    OneInstruction one(OpKind::lookup_table, DType::int8, {image, image}, &step);
    const auto x = some_codes(image.size());
    for_each_table([&](const KernelTable& table) {
        const auto z = one.run(table, x);
        for (std::size_t i = 0; i < x.size(); ++i) CHECK(z[i] == static_cast<std::int8_t>(-1 - x[i]));
    });
    const KernelTable& table = *scalar_tables().tables[0];
    step.size = 513;
    CHECK(one.check(table) == Status{StatusCode::corrupt, OpKind::lookup_table, Field::storage, 513, 256});
    step = {nullptr, 256};
    CHECK(one.check(table).field == Field::storage);
    // TFLite's curve is of int16, has numbers that stay in 32 bits, and no other table has any.
    step = {entries, 257, {24000, 13, false}};
    CHECK(one.check(table) == Status{StatusCode::corrupt, OpKind::lookup_table, Field::storage, 257, 256});
    for (const arith::TfliteCurve& bad :
         {arith::TfliteCurve{}, {65536, 0, false}, {32768, 1, true}, {1, -1, true}, {1, 32, true}, {-3, 0, false}}) {
        step.curve = bad;
        CHECK(one.check(table).field == Field::multiplier);
    }
    step = {entries, 256, {3, 0, false}};
    CHECK(one.check(table).field == Field::multiplier);
    step = {entries, 256};
    one.tensors[1].dtype = DType::int16;
    one.arena_size *= 2;
    CHECK(one.check(table).code == StatusCode::dtype_mismatch);
    // Blocks of int16 codes name knots that the table has, and are of another size than all other tables.
    std::int16_t blocks[arith::table_blocks + 2 * 3]{};
    std::fill_n(blocks, arith::table_blocks, std::int16_t{7});
    blocks[arith::table_blocks + 3] = 1;  // the second knot is 2^16: 256 codes in 128
    step = {blocks, std::size(blocks)};
    OneInstruction narrow(OpKind::lookup_table, DType::int8, {image, image}, &step);
    CHECK(narrow.check(table) == Status{StatusCode::corrupt, OpKind::lookup_table, Field::storage, 518, 256});
    OneInstruction wide(OpKind::lookup_table, DType::int16, {image, image}, &step);
    CHECK(wide.check(table).ok());
    blocks[200] = 16 + 7;
    CHECK(wide.check(table) == Status{StatusCode::corrupt, OpKind::lookup_table, Field::storage, 0, 0});
    blocks[200] = 6;
    CHECK(wide.check(table).ok());
    blocks[200] = 5;
    CHECK(wide.check(table).field == Field::storage);
    blocks[200] = 7;
    step.size = 517;
    CHECK(wide.check(table).field == Field::storage);
}

TEST_CASE("an interpolate instruction resizes images; a table of another image is refused") {
    std::vector<arith::ResizeTap> taps(16);
    const Shape larger(2, 3, 8, 5);
    auto table_of = *kernels::make_resize_table(arith::Resize::nearest, {4, 5}, {8, 5}, taps);
    OneInstruction one(OpKind::interpolate, DType::int8, {image, larger}, &table_of);
    const auto x = some_codes(image.size());
    for_each_table([&](const KernelTable& table) {
        const auto z = one.run(table, x);
        // Channels last: row i of the output is row i / 2 of the input.
        for (index_t n = 0; n < 2; ++n)
            for (index_t i = 0; i < 8; ++i)
                for (index_t k = 0; k < 15; ++k)
                    CHECK(z[static_cast<std::size_t>((n * 8 + i) * 15 + k)] ==
                          x[static_cast<std::size_t>((n * 4 + i / 2) * 15 + k)]);
    });
    const KernelTable& table = *scalar_tables().tables[0];
    table_of.in.width = 4;
    CHECK(one.check(table).code == StatusCode::shape_mismatch);
    table_of.in.width = 5;
    for (const std::int32_t bad : {-1, 4, INT32_MAX}) {
        taps[3].second = bad;
        CHECK(one.check(table).code == StatusCode::corrupt);
    }
    taps[3].second = 0;
    CHECK(one.check(table).ok());
    for (const auto& [blend, most] :
         {std::pair{arith::Blend::nearest, 0}, {arith::Blend::of_256ths, 255}, {arith::Blend::of_1024ths, 1023}}) {
        table_of.blend = blend;
        taps[3].weight = most;
        CHECK(one.check(table).ok());
        taps[3].weight = most + 1;
        CHECK(one.check(table).code == StatusCode::corrupt);
        taps[3].weight = 0;
    }
    table_of.blend = static_cast<arith::Blend>(4);
    CHECK(one.check(table).field == Field::instruction);
    table_of.blend = arith::Blend::nearest;
    one.tensors[1].shape[2] = 7;
    CHECK(one.check(table).field == Field::output);
}

TEST_CASE("a pad instruction puts pixels onto a larger field, apart or cropped, whatever the type") {
    for (const Size2d step : {Size2d{1, 1}, Size2d{2, 3}})
        for (const Padding2d& padding : {Padding2d{1, 2, 0, 3}, Padding2d{-1, 0, 2, -2}, Padding2d{}}) {
            const kernels::PadParams pad{padding, step, -7};
            const Size2d out = kernels::padded_size(pad, {4, 5});
            const OneInstruction one(OpKind::pad, DType::int8, {image, Shape(2, 3, out.height, out.width)}, &pad);
            const auto x = some_codes(image.size());
            std::vector<std::int8_t> expected(static_cast<std::size_t>(2 * out.height * out.width * 3), -7);
            for (index_t n = 0; n < 2; ++n)
                for (index_t i = 0; i < 4; ++i)
                    for (index_t j = 0; j < 5; ++j)
                        for (index_t c = 0; c < 3; ++c) {
                            const index_t y = i * step.height + padding.top, z = j * step.width + padding.left;
                            if (y < 0 || z < 0 || y >= out.height || z >= out.width) continue;
                            expected[static_cast<std::size_t>(((n * out.height + y) * out.width + z) * 3 + c)] =
                                x[static_cast<std::size_t>(((n * 4 + i) * 5 + j) * 3 + c)];
                        }
            for_each_table([&](const KernelTable& table) { CHECK(one.run(table, x) == expected); });
        }
    const kernels::PadParams wide{{1, 0, 0, 0}, {1, 1}, 30000};
    const OneInstruction one(OpKind::pad, DType::int16, {image, Shape(2, 3, 5, 5)}, &wide);
    std::vector<std::int16_t> x(static_cast<std::size_t>(image.size()), 12345);
    const auto z = one.run(*scalar_tables().tables[0], x);
    for (std::size_t i = 0; i < z.size(); ++i) CHECK(z[i] == (i % 75 < 15 ? 30000 : 12345));
}

TEST_CASE("a pad whose steps, sides, fill or output are wrong is refused") {
    kernels::PadParams pad{{1, 1, 1, 1}, {1, 1}, 0};
    const KernelTable& table = *scalar_tables().tables[0];
    OneInstruction one(OpKind::pad, DType::int8, {image, Shape(2, 3, 6, 7)}, &pad);
    REQUIRE(one.check(table).ok());
    const auto field_with = [&](const kernels::PadParams& other) {
        const kernels::PadParams sound = pad;
        pad = other;
        const Status status = one.check(table);
        pad = sound;
        CHECK(!status.ok());
        return status.field;
    };
    CHECK(field_with({{1, 1, 1, 1}, {0, 1}, 0}) == Field::stride);
    CHECK(field_with({{1, 1, 1, 1}, {1, index_t{1} << 60}, 0}) == Field::stride);
    CHECK(field_with({{1, std::numeric_limits<index_t>::max(), 1, 1}, {1, 1}, 0}) == Field::padding);
    CHECK(field_with({{-9, 1, 1, 1}, {1, 1}, 0}) == Field::output);
    CHECK(field_with({{1, 1, 1, 2}, {1, 1}, 0}) == Field::output);
    CHECK(field_with({{1, 1, 1, 1}, {1, 1}, 128}) == Field::zero_point);
}

TEST_CASE("a mul instruction multiplies, in place too") {
    const Codes in{0.05f, 0, DType::int8};
    const auto x = some_codes(image.size());
    const auto tensor = [&] {
        oracle::Tensor t = oracle::make_tensor(1, image.size(), 1, 1);
        for (std::size_t i = 0; i < x.size(); ++i) t.codes[i] = x[i];
        return t;
    }();
    for (const BackendTables& backend : usable_backend_tables())
        for (std::size_t target = 0; target < backend.tables.size(); ++target) {
            const auto params = *arith::make_mul(backend.tables[target]->policy(), in.codes_of(), in.codes_of(),
                                                 in.codes_of(), in.output_codes());
            OneInstruction one(OpKind::mul, DType::int8, {image, image, image}, &params);
            const auto expected = oracle::binary(oracle_targets()[target], oracle::Binary::mul, tensor, in.for_oracle(),
                                                 tensor, in.for_oracle(), in.for_oracle());
            for (const bool in_place : {false, true}) {
                if (in_place) one.tensors[2].offset = one.tensors[0].offset;
                const auto z = one.run(*backend.tables[target], x);
                for (std::size_t i = 0; i < z.size(); ++i) CHECK(z[i] == expected.codes[i]);
            }
        }
}

TEST_CASE("a slice, permute or reshape instruction moves codes of either type, on every backend") {
    // The two last channels of three, rows and columns exchanged: z[n][j][i][c] = x[n][i][j][c + 1].
    kernels::MoveParams move;
    move.rank = 3;
    const index_t extents[3] = {5, 4, 2}, steps[3] = {3, 15, 1};
    for (int axis = 0; axis < 3; ++axis) move.extents[axis] = extents[axis], move.steps[axis] = steps[axis];
    move.offset = 1;
    const std::vector<std::int8_t> x = some_codes(image.size());
    const std::vector<std::int16_t> wide(x.begin(), x.end());
    for (const OpKind op : {OpKind::slice, OpKind::permute, OpKind::reshape}) {
        const OneInstruction narrow(op, DType::int8, {image, Shape(2, 2, 5, 4)}, &move),
            one(op, DType::int16, {image, Shape(2, 2, 5, 4)}, &move);
        for_each_table([&](const KernelTable& table) {
            const std::vector<std::int8_t> z = narrow.run(table, x);
            const std::vector<std::int16_t> y = one.run(table, wide);
            int wrong = 0;
            for (index_t n = 0; n < 2; ++n)
                for (index_t j = 0; j < 5; ++j)
                    for (index_t i = 0; i < 4; ++i)
                        for (index_t c = 0; c < 2; ++c) {
                            const auto to = static_cast<std::size_t>(((n * 5 + j) * 4 + i) * 2 + c);
                            const auto from = static_cast<std::size_t>(((n * 4 + i) * 5 + j) * 3 + c + 1);
                            wrong += z[to] != x[from] || y[to] != wide[from];
                        }
            INFO(table.policy().name << "/" << table.backend);
            CHECK(wrong == 0);
        });
    }
}

TEST_CASE("a constant instruction gives each image the same codes") {
    const Shape one_image(1, 3, 4, 5);
    const std::vector<std::int8_t> codes = some_codes(one_image.size());
    const std::vector<std::int16_t> wide(codes.begin(), codes.end());
    const kernels::ConstantParams narrow{codes.data(), one_image.size(), DType::int8},
        of_words{wide.data(), one_image.size(), DType::int16};
    for_each_table([&](const KernelTable& table) {
        const auto z = OneInstruction(OpKind::constant, DType::int8, {image}, &narrow).run(table, codes);
        const auto y = OneInstruction(OpKind::constant, DType::int16, {image}, &of_words).run(table, wide);
        int wrong = 0;
        for (std::size_t i = 0; i < z.size(); ++i)
            wrong += z[i] != codes[i % codes.size()] || y[i] != wide[i % codes.size()];
        INFO(table.policy().name << "/" << table.backend);
        CHECK(wrong == 0);
        CHECK(z.size() == 2 * codes.size());
    });
}

TEST_CASE("a constant of another size or type, and one without memory, is refused") {
    const std::vector<std::int8_t> codes(60);
    const KernelTable& table = *scalar_tables().tables[0];
    const auto status_of = [&](const kernels::ConstantParams& constant, DType y) {
        return OneInstruction(OpKind::constant, y, {image}, &constant).check(table);
    };
    CHECK(status_of({codes.data(), 60, DType::int8}, DType::int8).ok());
    CHECK(status_of({codes.data(), 59, DType::int8}, DType::int8).code == StatusCode::corrupt);
    CHECK(status_of({codes.data(), 0, DType::int8}, DType::int8).code == StatusCode::corrupt);
    CHECK(status_of({codes.data(), 60, DType::int8}, DType::int16).code == StatusCode::dtype_mismatch);
    CHECK(status_of({codes.data(), 60, DType::float32}, DType::float32).code == StatusCode::corrupt);
    CHECK(status_of({nullptr, 60, DType::int8}, DType::int8).code == StatusCode::corrupt);
    CHECK(status_of({codes.data() + 1, 60, DType::int16}, DType::int16).code == StatusCode::corrupt);
}

TEST_CASE(
    "a quantize_image instruction looks every pixel up in the table of its channel, from planes and channels last") {
    const std::vector<std::int8_t> entries = some_codes(3 * 256);
    const std::vector<std::int8_t> bytes = some_codes(image.size());
    const index_t pixels = 4 * 5;
    for (const index_t tables : {index_t{1}, index_t{3}})
        for (const Layout layout : {Layout::row_major, Layout::channels_last}) {
            const kernels::QuantizeImageParams params{entries.data(), tables, DType::int8};
            OneInstruction one(OpKind::quantize_image, DType::int8, {image, image}, &params);
            one.tensors[0].dtype = DType::uint8;
            one.tensors[0].layout = layout;
            std::vector<std::int8_t> expected(bytes.size());
            for (index_t n = 0; n < 2; ++n)
                for (index_t p = 0; p < pixels; ++p)
                    for (index_t c = 0; c < 3; ++c) {
                        const index_t last = (n * pixels + p) * 3 + c, planar = (n * 3 + c) * pixels + p;
                        const auto pixel = static_cast<std::uint8_t>(
                            bytes[static_cast<std::size_t>(layout == Layout::row_major ? planar : last)]);
                        expected[static_cast<std::size_t>(last)] =
                            entries[static_cast<std::size_t>((tables == 1 ? 0 : c) * 256 + pixel)];
                    }
            for_each_table([&](const KernelTable& table) {
                INFO(table.policy().name << "/" << table.backend);
                CHECK(one.run(table, bytes) == expected);
            });
        }
}

TEST_CASE("pixels of another type, tables for another number of channels, and none, are refused") {
    const std::vector<std::int8_t> entries(3 * 256);
    const KernelTable& table = *scalar_tables().tables[0];
    const auto status_of = [&](const kernels::QuantizeImageParams& params, DType x, DType y, const Shape& out = image) {
        OneInstruction one(OpKind::quantize_image, y, {image, out}, &params);
        one.tensors[0].dtype = x;
        one.arena_size *= 4;
        return one.check(table);
    };
    constexpr DType pixel = DType::uint8, code = DType::int8;
    CHECK(status_of({entries.data(), 3, code}, pixel, code).ok());
    CHECK(status_of({entries.data(), 1, code}, pixel, code).ok());
    CHECK(status_of({entries.data(), 2, code}, pixel, code) ==
          Status{StatusCode::corrupt, OpKind::quantize_image, Field::storage, 2, 3});
    for (const index_t tables : {index_t{0}, index_t{-3}, INT64_MAX})
        CHECK(status_of({entries.data(), tables, code}, pixel, code).code == StatusCode::corrupt);
    CHECK(status_of({nullptr, 3, code}, pixel, code).code == StatusCode::corrupt);
    CHECK(status_of({entries.data(), 3, code}, code, code).code == StatusCode::dtype_mismatch);
    CHECK(status_of({entries.data(), 3, code}, pixel, DType::int16).code == StatusCode::dtype_mismatch);
    CHECK(status_of({entries.data(), 3, pixel}, pixel, pixel).code == StatusCode::corrupt);
    CHECK(status_of({entries.data(), 3, code}, pixel, code, Shape(2, 3, 5, 4)).code == StatusCode::shape_mismatch);
}

TEST_CASE("a move whose parameters, types or output are wrong is refused") {
    kernels::MoveParams move;
    move.rank = 1;
    move.extents[0] = 60;
    move.steps[0] = 1;
    const KernelTable& table = *scalar_tables().tables[0];
    const auto code_of = [&](DType x, DType y, const Shape& out) {
        OneInstruction one(OpKind::reshape, x, {image, out}, &move);
        one.tensors[1].dtype = y;
        one.tensors[1].qparams = QParams::per_tensor(1.0f, 0, y);
        return one.check(table).code;
    };
    CHECK(code_of(DType::int8, DType::int8, Shape(2, 60)) == StatusCode::ok);
    CHECK(code_of(DType::int8, DType::int8, Shape(2, 30)) == StatusCode::corrupt);
    CHECK(code_of(DType::int16, DType::int8, Shape(2, 60)) == StatusCode::dtype_mismatch);
    CHECK(code_of(DType::int32, DType::int32, Shape(2, 60)) == StatusCode::ok);  // indices
    CHECK(code_of(DType::float32, DType::float32, Shape(2, 60)) == StatusCode::unsupported);
    move.offset = 1;
    CHECK(code_of(DType::int8, DType::int8, Shape(2, 60)) == StatusCode::corrupt);
    move.rank = 7;
    CHECK(code_of(DType::int8, DType::int8, Shape(2, 60)) == StatusCode::corrupt);
}
