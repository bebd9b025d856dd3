/*
 * Runs a pack and tells time, memory, and a digest of the outputs, in one line of JSON: what `eyelet run` does, as lean as a
 * program for a board can be. What it needs beside the arena is code and a stack.
 *
 *     run FILE.pack [options]
 *
 * Inputs and outputs are files of 32-bit floats, nothing else. Without --input the input is pseudo-random, the same as that of
 * `eyelet run`, and so is the digest: FNV-1a, 64 bits, over the bytes of all outputs.
 */
#define _GNU_SOURCE
#include "eyelet.h"
#include "made_up.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MOST_FILES = 8, MOST_THREADS = 16, MOST_RUNS = 1000000 };

static const char USAGE[] =
    "usage: run FILE.pack [options]\n"
    "  --budget BYTES               runs the plan with the largest budget that needs at most so much arena\n"
    "  --shape N                    changes to this shape of the pack, from 0 on, when it is open\n"
    "  --threads N                  compute threads [as planned, but no more than there are cores]\n"
    "  --pin                        each on a core of its own; needs --threads\n"
    "  --io direct|buffered|mapped  how weights are read [direct]\n"
    "  --inline                     weights are loaded between steps, without a thread for it\n"
    "  --depth N                    reads under way at once, at most [as many as the file can have]\n"
    "  --no-verify                  does not compare what is read with its checksums\n"
    "  --input FILE                 an input; once for each\n"
    "  --output FILE                writes the outputs of the last inference there, one after the other\n"
    "  --warmup N                   inferences before those that are measured [0]\n"
    "  --runs N                     inferences that are measured [1]\n";

struct arguments {
    eyelet_source pack;
    eyelet_options options;
    const char *io;
    const char *inputs[MOST_FILES];
    uint32_t input_files;
    const char *output;
    uint32_t shape;
    uint32_t warmup;
    uint32_t runs;
    uint32_t cores[MOST_THREADS];
    int pin;
};

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "run: %s: %s\n", what, why);
    exit(1);
}

static uint64_t number(const char *option, const char *text, uint64_t most)
{
    char *end = NULL;
    uint64_t value = text ? strtoull(text, &end, 10) : 0;
    if (!text || end == text || *end || text[0] == '-' || value > most)
        fail(option, "a number is wanted, and not a larger one than there can be");
    return value;
}

static void parse(int count, char **words, struct arguments *into)
{
    into->io = "direct";
    into->runs = 1;
    for (int i = 1; i < count; i++) {
        const char *word = words[i], *next = i + 1 < count ? words[i + 1] : NULL;
        if (!strcmp(word, "--pin")) {
            into->pin = 1;
        } else if (!strcmp(word, "--inline")) {
            into->options.load_inline = 1;
        } else if (!strcmp(word, "--no-verify")) {
            into->options.no_verify = 1;
        } else if (word[0] != '-' && !into->pack.path) {
            into->pack.path = word;
        } else if (!next) {
            fputs(USAGE, stderr);
            exit(2);
        } else {
            i++;
            if (!strcmp(word, "--budget")) {
                into->options.budget = number(word, next, UINT64_MAX);
            } else if (!strcmp(word, "--shape")) {
                into->shape = (uint32_t)number(word, next, UINT32_MAX);
            } else if (!strcmp(word, "--threads")) {
                into->options.threads = (uint32_t)number(word, next, MOST_THREADS);
            } else if (!strcmp(word, "--depth")) {
                into->options.depth = (uint32_t)number(word, next, UINT32_MAX);
            } else if (!strcmp(word, "--io")) {
                into->io = next;
            } else if (!strcmp(word, "--input") && into->input_files < MOST_FILES) {
                into->inputs[into->input_files++] = next;
            } else if (!strcmp(word, "--output")) {
                into->output = next;
            } else if (!strcmp(word, "--warmup")) {
                into->warmup = (uint32_t)number(word, next, MOST_RUNS);
            } else if (!strcmp(word, "--runs")) {
                into->runs = (uint32_t)number(word, next, MOST_RUNS);
            } else {
                fputs(USAGE, stderr);
                exit(2);
            }
        }
    }
    static const char *const ways[] = {"direct", "buffered", "mapped"};
    uint32_t kind = 0;
    while (kind < 3 && strcmp(into->io, ways[kind]))
        kind++;
    into->pack.kind = kind;
    if (!into->pack.path || kind == 3 || into->runs == 0 || (into->pin && !into->options.threads)) {
        fputs(USAGE, stderr);
        exit(2);
    }
}

/* A line of /proc/self/status that is a size, in bytes; 0 where there is none. */
static uint64_t status_bytes(const char *field)
{
    char text[4096], *line;
    int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t bytes = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0)
        close(file);
    text[bytes < 0 ? 0 : bytes] = 0;
    line = strstr(text, field);
    return line ? strtoull(line + strlen(field) + 1, NULL, 10) * 1024 : 0;
}

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* Has the page cache forget a file that is read past it, so that what a copy has left there is none of this run's. */
static void forget(const char *path)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        fdatasync(file);
        posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
        close(file);
    }
}

/* Before every inference, since none keeps its inputs; straight into the arena. */
static void fill(eyelet_model *model, const struct arguments *arguments)
{
    for (uint32_t index = 0; index < eyelet_inputs(model); index++) {
        uint64_t count;
        void *values = eyelet_input(model, index, &count);
        int words = values == NULL;
        if (words)
            values = eyelet_input_words(model, index, &count);
        if (arguments->input_files == 0) {
            if (words)
                memset(values, 0, (size_t)count * sizeof(int32_t));
            else
                make_up(index, values, count);
            continue;
        }
        const char *path = arguments->inputs[index];
        int file = open(path, O_RDONLY | O_CLOEXEC);
        struct stat about;
        size_t bytes = (size_t)count * sizeof(float), done = 0;
        if (file < 0 || fstat(file, &about) != 0)
            fail(path, "cannot be opened");
        if ((uint64_t)about.st_size != bytes)
            fail(path, "has not as many 32-bit floats (or integers) as the input");
        while (done < bytes) {
            ssize_t got = read(file, (char *)values + done, bytes - done);
            if (got <= 0)
                fail(path, "cannot be read");
            done += (size_t)got;
        }
        close(file);
    }
}

static uint64_t digest_of(eyelet_model *model)
{
    uint64_t digest = DIGEST;
    for (uint32_t index = 0; index < eyelet_outputs(model); index++) {
        uint64_t count;
        const void *values = eyelet_output(model, index, &count);
        if (values == NULL)
            values = eyelet_output_words(model, index, &count);
        digest = digest_of_bytes(digest, values, count * sizeof(float));
    }
    return digest;
}

static void write_outputs(eyelet_model *model, const char *path)
{
    FILE *file = fopen(path, "wb");
    int good = file != NULL;
    for (uint32_t index = 0; good && index < eyelet_outputs(model); index++) {
        uint64_t count;
        const void *values = eyelet_output(model, index, &count);
        if (values == NULL)
            values = eyelet_output_words(model, index, &count);
        good = fwrite(values, sizeof(float), (size_t)count, file) == count;
    }
    if (!file || fclose(file) != 0 || !good)
        fail(path, "cannot be written");
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Samples in nanoseconds, which are sorted. */
static double median_ms(uint64_t *ns, uint32_t count)
{
    qsort(ns, count, sizeof *ns, ascending);
    uint64_t sum = ns[(count - 1) / 2] + ns[count / 2];
    return (double)sum / 2e6;
}

/* The first cores that this program may run on, as many as there are threads. */
static void name_cores(struct arguments *arguments)
{
    cpu_set_t all;
    uint32_t found = 0;
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        fail("--pin", "the system does not tell the cores");
    for (uint32_t core = 0; core < CPU_SETSIZE && found < arguments->options.threads; core++)
        if (CPU_ISSET(core, &all))
            arguments->cores[found++] = core;
    if (found < arguments->options.threads)
        fail("--pin", "there are fewer cores than threads");
    arguments->options.cores = arguments->cores;
}

/* Keeps this thread to a core. Only when the model is open: the thread that loads may run where the one that opened could. */
static void keep_to(uint32_t core)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0)
        fail("--pin", "this thread may not run on its core");
}

int main(int count, char **words)
{
    static struct arguments arguments;
    uint64_t before = status_bytes("VmRSS:");
    parse(count, words, &arguments);
    const char *path = arguments.pack.path;
    if (arguments.pack.kind == EYELET_DIRECT)
        forget(path);

    eyelet_error why;
    uint64_t bytes = eyelet_arena_bytes(&arguments.pack, arguments.options.budget, arguments.options.threads, &why);
    if (bytes == 0)
        fail(path, why.text);
    void *arena = eyelet_map(bytes, &why);
    if (!arena)
        fail(path, why.text);
    if (arguments.pin)
        name_cores(&arguments);
    uint64_t start = now_ns();
    eyelet_model *model;
    if (eyelet_open(&model, &arguments.pack, arena, bytes, &arguments.options, &why) != EYELET_OK)
        fail(path, why.text);
    uint64_t open_ns = now_ns() - start;
    if (arguments.shape && eyelet_set_shape(model, arguments.shape, NULL, &why) != EYELET_OK)
        fail("--shape", why.text);
    if (arguments.pin)
        keep_to(arguments.cores[0]);
    if (arguments.input_files != 0 && arguments.input_files != eyelet_inputs(model))
        fail("--input", "a file is wanted for each of the network's inputs");

    uint32_t runs = arguments.runs, total = arguments.warmup + runs;
    uint64_t *latency = calloc(3 * (size_t)runs, sizeof *latency);
    if (!latency)
        fail("--runs", "there is no memory for as many");
    uint64_t *compute = latency + runs, *stall = compute + runs;
    uint64_t digest = 0, first_ns = 0;
    for (uint32_t i = 0; i < total; i++) {
        fill(model, &arguments);
        start = now_ns();
        if (eyelet_infer(model, &why) != EYELET_OK)
            fail(path, why.text);
        uint64_t ns = now_ns() - start, found = digest_of(model);
        if (i > 0 && found != digest)
            fail(path, "two inferences of one input gave different outputs");
        digest = found;
        if (i == 0)
            first_ns = ns;
        if (i >= arguments.warmup) {
            eyelet_times_info times;
            eyelet_times(model, &times);
            uint32_t sample = i - arguments.warmup;
            latency[sample] = ns;
            compute[sample] = times.compute_ns;
            stall[sample] = times.stall_ns;
        }
    }
    /* The peak is that of the inferences, and not of what follows. */
    uint64_t peak = status_bytes("VmHWM:");
    if (arguments.output)
        write_outputs(model, arguments.output);
    eyelet_plan_info plan;
    eyelet_plan(model, &plan);
    eyelet_close(model);
    eyelet_unmap(arena, bytes);

    /* Not more than a figure: what could not be found out is none. */
    char cached[24] = "null";
    int64_t in_cache = eyelet_page_cache(&arguments.pack, &why);
    if (in_cache >= 0)
        snprintf(cached, sizeof cached, "%" PRId64, in_cache);

    double median = median_ms(latency, runs);
    printf("{\"budget_bytes\": %" PRIu64 ", \"arena_bytes\": %" PRIu64 ", \"threads\": %" PRIu32 ", \"io\": \"%s\", "
           "\"runs\": %" PRIu32 ", \"warmup\": %" PRIu32 ", "
           "\"latency_ms\": {\"min\": %.6f, \"median\": %.6f, \"max\": %.6f}, "
           "\"compute_ms\": %.6f, \"stall_ms\": %.6f, \"open_ms\": %.6f, \"first_ms\": %.6f, "
           "\"bytes_read_per_inference\": %" PRIu64 ", \"resident_bytes\": %" PRIu64 ", "
           "\"peak_rss_bytes\": %" PRIu64 ", \"rss_before_bytes\": %" PRIu64 ", \"page_cache_bytes\": %s, "
           "\"output_digest\": \"%016" PRIx64 "\"}\n",
           plan.budget_bytes, plan.arena_bytes, plan.threads, arguments.io, runs, arguments.warmup,
           (double)latency[0] / 1e6, median, (double)latency[runs - 1] / 1e6,
           median_ms(compute, runs), median_ms(stall, runs), (double)open_ns / 1e6, (double)first_ns / 1e6,
           plan.read_bytes, plan.resident_bytes, peak, before, cached, digest);
    free(latency);
    return 0;
}
