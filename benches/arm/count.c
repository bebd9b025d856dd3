/* A plugin of QEMU's user emulation that counts what a 64-bit ARM program executes: instructions and
 * multiplications of vectors (fmla, fmls of four floats), for each function of the executable.
 *
 *   gcc -O2 -shared -fPIC -o count.so count.c
 *   qemu-aarch64 -plugin ./count.so,out=counts.txt ./program arguments
 *
 * The file gets a line for each function: instructions, multiplications, name; "-" is whatever has no name: libraries,
 * executables without symbols. Counts are exact for one thread; threads that run at the same time may lose
 * some. For QEMU 5 to 8, plugin interface 1, declared here because Debian packages no header for it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t plugin_id;
typedef struct {
    const char *target_name;
    struct {
        int min, cur;
    } version;
} plugin_info;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum { INLINE_ADD_U64 = 0 };

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, void (*)(plugin_id, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, int, void *, uint64_t);
void qemu_plugin_register_atexit_cb(plugin_id, void (*)(plugin_id, void *), void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
const char *qemu_plugin_insn_symbol(const struct qemu_plugin_insn *);

#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = 1;

struct function {
    struct function *next;
    uint64_t instructions, multiplications;
    char name[];
};

enum { BUCKETS = 4096 };
static struct function *functions[BUCKETS];
static const char *out_path;

/* The record of a name. QEMU translates under a lock: no two calls at a time. */
static struct function *find(const char *name)
{
    uint32_t hash = 5381;
    for (const char *c = name; *c; c++)
        hash = hash * 33 + (unsigned char)*c;
    struct function **at = &functions[hash % BUCKETS];
    for (; *at; at = &(*at)->next)
        if (strcmp((*at)->name, name) == 0)
            return *at;
    *at = calloc(1, sizeof **at + strlen(name) + 1);
    if (!*at)
        abort();
    strcpy((*at)->name, name);
    return *at;
}

static int multiplies(uint32_t word)
{
    return (word & 0xff60fc00) == 0x4e20cc00     /* three vectors */
           || (word & 0xffc0b400) == 0x4f801000; /* by element */
}

static void translated(plugin_id id, struct qemu_plugin_tb *block)
{
    const size_t count = qemu_plugin_tb_n_insns(block);
    uint64_t multiplications = 0;
    (void)id;
    for (size_t i = 0; i < count; i++) {
        uint32_t word;
        memcpy(&word, qemu_plugin_insn_data(qemu_plugin_tb_get_insn(block, i)), sizeof word);
        multiplications += multiplies(word);
    }
    const char *name = qemu_plugin_insn_symbol(qemu_plugin_tb_get_insn(block, 0));
    struct function *function = find(name && *name ? name : "-");
    qemu_plugin_register_vcpu_tb_exec_inline(block, INLINE_ADD_U64, &function->instructions, count);
    if (multiplications)
        qemu_plugin_register_vcpu_tb_exec_inline(block, INLINE_ADD_U64, &function->multiplications,
                                                 multiplications);
}

static void ended(plugin_id id, void *user)
{
    FILE *out = fopen(out_path, "w");
    (void)id, (void)user;
    if (!out) {
        perror(out_path);
        return;
    }
    for (size_t i = 0; i < BUCKETS; i++)
        for (const struct function *f = functions[i]; f; f = f->next)
            if (f->instructions)
                fprintf(out, "%llu %llu %s\n", (unsigned long long)f->instructions,
                        (unsigned long long)f->multiplications, f->name);
    fclose(out);
}

EXPORT int qemu_plugin_install(plugin_id id, const plugin_info *info, int argc, char **argv)
{
    if (strcmp(info->target_name, "aarch64") != 0 || argc != 1 || strncmp(argv[0], "out=", 4) != 0) {
        fprintf(stderr, "count: for qemu-aarch64, with out=FILE\n");
        return -1;
    }
    out_path = strdup(argv[0] + 4);
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, ended, NULL);
    return 0;
}
