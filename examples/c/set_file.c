/*
 * Runs the set of a file that `eyelet schedule SET.toml -o FILE.pack` has written: several networks with deadlines in one memory, which may be
 * smaller than all of them. Linux only.
 *
 *     set_file FILE.pack JOBS
 *
 * Releases each task with its period, by the system's clock, until each has had so many jobs. Prints for each how often it missed its
 * deadline and the digest of its outputs. A network that answers the same input with other bits than before ends the program.
 */
#define _POSIX_C_SOURCE 200809L
#include "eyelet.h"
#include "made_up.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct program {
    uint64_t jobs, next[EYELET_SET_TASKS], released[EYELET_SET_TASKS], ended[EYELET_SET_TASKS], digest[EYELET_SET_TASKS];
    uint32_t tasks;
};

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "set_file: %s: %s\n", what, why);
    exit(1);
}

static void inputs(void *context, uint32_t task, eyelet_ports *ports)
{
    uint64_t count;
    (void)context, (void)task;
    float *input = eyelet_ports_input(ports, 0, &count);
    if (!input)
        fail("a pack", "its first input is not of floats");
    make_up(0, input, count);
}

static void outputs(void *context, const eyelet_job *job, eyelet_ports *ports)
{
    struct program *program = context;
    uint64_t count;
    const float *output = eyelet_ports_output(ports, 0, &count);
    if (!output)
        fail("a pack", "its first output is not of floats");
    uint64_t digest = digest_of_bytes(DIGEST, output, count * sizeof *output);
    if (program->ended[job->task]++ > 0 && digest != program->digest[job->task])
        fail("an output", "is not that of the job before");
    program->digest[job->task] = digest;
}

static void failed(void *context, uint32_t task, const eyelet_error *why)
{
    (void)context;
    fprintf(stderr, "set_file: task %" PRIu32 ": %s\n", task, why->text);
}

/* Releases what is due. Returns how many jobs are still to come. */
static uint64_t release(struct program *program, eyelet_set *set, uint64_t *wake)
{
    uint64_t left = 0, now = eyelet_now();
    *wake = UINT64_MAX;
    for (uint32_t task = 0; task < program->tasks; task++) {
        eyelet_timing timing;
        eyelet_error why;
        if (eyelet_set_timing(set, task, &timing, &why) != EYELET_OK)
            fail("times", why.text);
        if (program->released[task] < program->jobs && now >= program->next[task]) {
            int32_t status = eyelet_set_release(set, task, now, &why);
            /* A job that is lost is counted as a miss by the set. */
            if (status != EYELET_OK && status != EYELET_UNFINISHED)
                fail("a release", why.text);
            program->released[task]++;
            program->next[task] = now + timing.period_ns;
        }
        if (program->released[task] < program->jobs && program->next[task] < *wake)
            *wake = program->next[task];
        left += program->jobs - program->released[task];
    }
    return left;
}

static void body(void *context, eyelet_set *set)
{
    struct program *program = context;
    for (;;) {
        uint64_t wake, left = release(program, set, &wake);
        if (eyelet_set_step(set, NULL) == EYELET_RUNNING)
            continue;
        if (left == 0)
            return;
        uint64_t now = eyelet_now();
        if (wake > now) {
            struct timespec pause = {.tv_sec = (time_t)((wake - now) / 1000000000), .tv_nsec = (long)((wake - now) % 1000000000)};
            nanosleep(&pause, NULL);
        }
    }
}

int main(int count, char **words)
{
    static struct program program;
    eyelet_error why;
    eyelet_set *set;
    if (count != 3)
        fail("usage", "set_file FILE.pack JOBS");
    program.jobs = strtoull(words[2], NULL, 10);
    eyelet_source file = {.kind = EYELET_DIRECT, .path = words[1]};
    uint64_t bytes = eyelet_set_file_bytes(&file, &why);
    void *memory = bytes ? aligned_alloc(EYELET_PAGE, bytes) : NULL;
    if (!memory)
        fail(words[1], bytes ? "no memory for the record" : why.text);
    eyelet_error small;
    if (eyelet_set_open_file(&set, &file, memory, bytes - EYELET_PAGE, NULL, &small) != EYELET_ARENA)
        fail("too little memory", "is not refused");
    if (eyelet_set_open_file(&set, &file, memory, bytes, NULL, &why) != EYELET_OK)
        fail(words[1], why.text);
    program.tasks = eyelet_set_tasks(set);
    eyelet_functions functions = {.inputs = inputs, .outputs = outputs, .failed = failed, .context = &program};
    if (eyelet_set_run(set, &functions, body, &program, &why) != EYELET_OK)
        fail("a run", why.text);
    for (uint32_t task = 0; task < program.tasks; task++) {
        eyelet_counts counts;
        uint64_t length;
        const char *name = eyelet_set_name(set, task, &length);
        if (!name || eyelet_set_counts(set, task, &counts, &why) != EYELET_OK)
            fail("a task", name ? why.text : "has no name");
        printf("%.*s: %" PRIu64 " jobs, %" PRIu64 " misses, %" PRIu64 " failed, digest %016" PRIx64 "\n", (int)length, name, counts.jobs, counts.misses,
               counts.failed, program.digest[task]);
    }
    eyelet_set_close(set);
    free(memory);
    return 0;
}
