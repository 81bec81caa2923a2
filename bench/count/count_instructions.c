/* SPDX-License-Identifier: MIT
 *
 * A plugin of QEMU (TCG, version 1 of its interface) that counts executed instructions by address, and how often the
 * program went elsewhere behind one than to the next address, which is a taken branch. At each call of the function
 * `intq_mark` it writes what was executed since the call before:
 *
 *     mark
 *     <address, as objdump writes it> <executed> <taken>
 *     ...
 *
 *   cc -O2 -shared -fPIC count_instructions.c -o count_instructions.so
 *   qemu-... -plugin ./count_instructions.so,out=<file> ...
 *
 * Debian has no header of the interface, so what is used of it is declared here. Each instruction that QEMU translates
 * counts: also one that an IT block skips.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_info;
typedef uint64_t plugin_id;

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, void (*)(plugin_id, struct qemu_plugin_tb*));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb*, void (*)(unsigned cpu, void*), int flags, void*);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn*, void (*)(unsigned cpu, void*), int flags, void*);
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn*, int operation, void*, uint64_t addend);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb*);
struct qemu_plugin_insn* qemu_plugin_tb_get_insn(const struct qemu_plugin_tb*, size_t);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn*);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn*);
const char* qemu_plugin_insn_symbol(const struct qemu_plugin_insn*);

#define EXPORTED __attribute__((visibility("default")))
EXPORTED int qemu_plugin_version = 1;
enum { add_u64 = 0, no_registers = 0 }; /* of the interface */

struct place {
    uint64_t address, executed, taken, written_executed, written_taken;
    int is_used;
};
struct block {
    uint64_t first, behind;
    struct place* last;
};

enum { capacity = 1 << 18 };
static struct place places[capacity]; /* a hash table */
static const struct block* previous;
static uint64_t mark_address;
static FILE* out;

static struct place* place_of(uint64_t address) {
    size_t i = (size_t)((address >> 1) * 0x9e3779b97f4a7c15u >> 40) % capacity;
    for (size_t tried = 0; places[i].is_used && places[i].address != address; ++tried, i = (i + 1) % capacity)
        if (tried == capacity - 1) abort();
    places[i].address = address;
    places[i].is_used = 1;
    return &places[i];
}

static void on_block(unsigned cpu, void* data) {
    const struct block* block = data;
    (void)cpu;
    if (previous != NULL && previous->behind != block->first) ++previous->last->taken;
    previous = block;
}

static void on_mark(unsigned cpu, void* data) {
    (void)cpu, (void)data;
    fputs("mark\n", out);
    for (struct place* place = places; place < places + capacity; ++place) {
        const uint64_t executed = place->executed - place->written_executed,
                       taken = place->taken - place->written_taken;
        if (executed + taken > 0)
            fprintf(out, "%llx %llu %llu\n", (unsigned long long)place->address, (unsigned long long)executed,
                    (unsigned long long)taken);
        place->written_executed = place->executed;
        place->written_taken = place->taken;
    }
    fflush(out);
}

static void on_translation(plugin_id id, struct qemu_plugin_tb* tb) {
    const size_t count = qemu_plugin_tb_n_insns(tb);
    struct block* block = malloc(sizeof *block); /* as long as the emulator may run it */
    (void)id;
    if (block == NULL) abort();
    block->first = qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, 0));
    for (size_t i = 0; i < count; ++i) {
        struct qemu_plugin_insn* instruction = qemu_plugin_tb_get_insn(tb, i);
        const char* symbol = qemu_plugin_insn_symbol(instruction);
        const uint64_t address = qemu_plugin_insn_vaddr(instruction);
        struct place* place = place_of(address);
        if (mark_address == 0 && symbol != NULL && strcmp(symbol, "intq_mark") == 0) mark_address = address;
        if (address == mark_address) qemu_plugin_register_vcpu_insn_exec_cb(instruction, on_mark, no_registers, NULL);
        qemu_plugin_register_vcpu_insn_exec_inline(instruction, add_u64, &place->executed, 1);
        block->last = place;
        block->behind = address + qemu_plugin_insn_size(instruction);
    }
    qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, no_registers, block);
}

EXPORTED int qemu_plugin_install(plugin_id id, const struct qemu_info* info, int count, char** arguments) {
    (void)info;
    for (int i = 0; i < count; ++i)
        if (strncmp(arguments[i], "out=", 4) == 0) out = fopen(arguments[i] + 4, "w");
    if (out == NULL) return 1;
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    return 0;
}
