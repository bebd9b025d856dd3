/*
 * Two networks with deadlines in one static arena, as firmware would run them: an urgent one, and one whose card reads by itself, as by
 * DMA, while steps compute. Between two steps of the second the first goes ahead. Nothing is allocated, and there is no thread.
 *
 *     two_networks URGENT.pack SLOW.pack BUDGET
 *
 * The slow network begins with its plan for BUDGET bytes, and has room for its largest one. The clock is the program's own, so that every run is the
 * same. The program compares all outputs with those of each network alone, and shows what goes wrong in a set: a job that is lost, a
 * card that fails, a task that is stopped, a change of all budgets.
 */
#include "eyelet.h"
#include "made_up.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { URGENT, SLOW, TASKS, ROUNDS = 4, READS = 2, BLOCK = 512 };
#define MS UINT64_C(1000000)

/* All the memory of both networks, and of the set. */
static _Alignas(EYELET_PAGE) unsigned char arena[1 << 20];

/* The library and this program mean the same by every record. */
#if UINTPTR_MAX > 0xffffffffu
_Static_assert(sizeof(eyelet_task) == 144 && offsetof(eyelet_task, timing) == 96, "eyelet_task");
_Static_assert(sizeof(eyelet_set_options) == 32 && offsetof(eyelet_set_options, cores) == 16, "eyelet_set_options");
_Static_assert(sizeof(eyelet_functions) == 48 && offsetof(eyelet_functions, now) == 32, "eyelet_functions");
#endif
_Static_assert(sizeof(eyelet_timing) == 40 && sizeof(eyelet_counts) == 48 && sizeof(eyelet_job) == 16, "eyelet_timing");

/* A read that goes on by itself. */
struct transfer {
    uint64_t offset;
    unsigned char *into;
    size_t left;
    int busy, status;
};

struct card {
    FILE *file;
    int broken;
    struct transfer transfers[READS];
    uint64_t bytes, unattended;
};

struct program {
    struct card cards[TASKS];
    uint64_t alone[TASKS], slow_budget, now;
    uint32_t ended[TASKS], failed[TASKS], preemptions;
    int in_slow, misused;
    eyelet_set *set;
};

static int32_t read_card(void *context, uint64_t offset, void *into, size_t bytes)
{
    struct card *card = context;
    if (card->broken)
        return 5;
    return fseek(card->file, (long)offset, SEEK_SET) != 0 || fread(into, 1, bytes, card->file) != bytes;
}

/* The device moves one block of what it has to read. */
static size_t move_block(struct card *card, struct transfer *transfer)
{
    size_t bytes = transfer->left < BLOCK ? transfer->left : BLOCK;
    if (bytes == 0)
        return 0;
    if (card->broken || read_card(card, transfer->offset, transfer->into, bytes) != 0)
        transfer->status = 5, transfer->left = bytes;
    transfer->offset += bytes;
    transfer->into += bytes;
    transfer->left -= bytes;
    card->bytes += bytes;
    return bytes;
}

static int32_t start_read(void *context, uint32_t number, uint64_t offset, void *into, size_t bytes)
{
    struct card *card = context;
    if (number >= READS || card->transfers[number].busy)
        return 16;
    card->transfers[number] = (struct transfer){.offset = offset, .into = into, .left = bytes, .busy = 1};
    return 0;
}

static int32_t poll_read(void *context, uint32_t number)
{
    struct card *card = context;
    return card->transfers[number].left == 0;
}

static int32_t finish_read(void *context, uint32_t number)
{
    struct card *card = context;
    struct transfer *transfer = &card->transfers[number];
    while (move_block(card, transfer) > 0)
        ;
    transfer->busy = 0;
    return transfer->status;
}

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "two_networks: %s: %s\n", what, why);
    exit(1);
}

/* What is not as it must be ends the program. */
static void expect(const char *what, int32_t found, int32_t expected, const eyelet_error *why)
{
    if (found == expected)
        return;
    fprintf(stderr, "two_networks: %s: status %" PRId32 ", not %" PRId32 ": %s\n", what, found, expected,
            found < 0 ? why->text : "no error");
    exit(1);
}

/* Each network alone, in the same arena: the digest of its output. */
static uint64_t alone(const eyelet_source *pack, uint64_t budget)
{
    eyelet_options options = {.threads = 1, .load_inline = 1, .budget = budget};
    eyelet_model *model;
    eyelet_error why;
    uint64_t count;
    if (eyelet_open(&model, pack, arena, sizeof arena, &options, &why) != EYELET_OK)
        fail("a pack", why.text);
    float *input = eyelet_input(model, 0, &count);
    if (!input)
        fail("a pack", "its first input is not of floats");
    make_up(0, input, count);
    expect("an inference", eyelet_infer(model, &why), EYELET_OK, &why);
    const float *output = eyelet_output(model, 0, &count);
    uint64_t digest = digest_of_bytes(DIGEST, output, count * sizeof *output);
    eyelet_close(model);
    return digest;
}

static void inputs(void *context, uint32_t task, eyelet_ports *ports)
{
    struct program *program = context;
    uint64_t count;
    eyelet_tensor info;
    eyelet_error why;
    (void)task;
    float *input = eyelet_ports_input(ports, 0, &count);
    expect("an input", eyelet_ports_input_info(ports, 0, &info, &why), EYELET_OK, &why);
    if (info.elements != count || info.name_bytes == 0 || eyelet_ports_input(ports, 99, NULL))
        fail("an input", "is not as it is described");
    make_up(0, input, count);
    /* A function that the set calls cannot use the set. */
    program->misused += eyelet_set_step(program->set, &why) == EYELET_STATE;
}

static void outputs(void *context, const eyelet_job *job, eyelet_ports *ports)
{
    struct program *program = context;
    uint64_t count;
    const float *output = eyelet_ports_output(ports, 0, &count);
    if (digest_of_bytes(DIGEST, output, count * sizeof *output) != program->alone[job->task])
        fail("an output", "differs from that of the network alone");
    program->ended[job->task]++;
    program->in_slow &= job->task != SLOW;
}

static void failed(void *context, uint32_t task, const eyelet_error *why)
{
    struct program *program = context;
    printf("task %" PRIu32 " failed: %s\n", task, why->text);
    program->failed[task]++;
    program->in_slow &= task != SLOW;
}

static void event(void *context, uint32_t what, uint32_t task, uint64_t now_ns)
{
    struct program *program = context;
    (void)now_ns;
    /* While a step computes, the card moves on. */
    for (int i = 0; what == EYELET_STEP_ENDS && i < READS; i++)
        program->cards[SLOW].unattended += move_block(&program->cards[SLOW], &program->cards[SLOW].transfers[i]);
    if (what != EYELET_STEP_BEGINS)
        return;
    program->preemptions += task == URGENT && program->in_slow;
    program->in_slow |= task == SLOW;
}

/* Every question takes 1 us. */
static uint64_t now(void *context)
{
    struct program *program = context;
    return program->now += 1000;
}

static void release(struct program *program, uint32_t task, int32_t expected)
{
    eyelet_error why;
    expect("a release", eyelet_set_release(program->set, task, program->now, &why), expected, &why);
}

static void finish(struct program *program)
{
    eyelet_error why;
    int32_t status;
    while ((status = eyelet_set_step(program->set, &why)) == EYELET_RUNNING)
        ; /* here firmware kicks its watchdog */
    expect("a step", status, EYELET_OK, &why);
}

/* One job of each. The urgent one arrives after some steps of the other. */
static void both(struct program *program, int before)
{
    eyelet_error why;
    program->now += 100 * MS;
    release(program, SLOW, EYELET_OK);
    for (int i = 0; i < before; i++)
        expect("a step", eyelet_set_step(program->set, &why), EYELET_RUNNING, &why);
    release(program, URGENT, EYELET_OK);
    finish(program);
}

static void faults(struct program *program)
{
    eyelet_error why;
    /* A job that arrives while its predecessor has not ended is lost, and is a miss. One that comes too soon is refused. */
    program->now += 100 * MS;
    release(program, URGENT, EYELET_OK);
    release(program, URGENT, EYELET_UNFINISHED);
    finish(program);
    release(program, URGENT, EYELET_EARLY);
    release(program, TASKS, EYELET_ARGUMENT);
    /* A card that fails ends the job that it is read for, and no other. */
    program->cards[SLOW].broken = 1;
    both(program, 0);
    program->cards[SLOW].broken = 0;
    both(program, 1);
    /* A task that is stopped has no jobs. */
    expect("a stop", eyelet_set_stop(program->set, SLOW, &why), EYELET_OK, &why);
    release(program, SLOW, EYELET_STATE);
    expect("a start", eyelet_set_start(program->set, SLOW, &why), EYELET_OK, &why);
}

/* The set at work. */
static void body(void *context, eyelet_set *set)
{
    struct program *program = context;
    eyelet_error why;
    for (int round = 0; round < ROUNDS; round++)
        both(program, round);
    faults(program);
    /* All budgets change together, or none. */
    eyelet_timing timings[TASKS] = {{.period_ns = 20 * MS, .compute_ns = 5 * MS}, {.period_ns = 60 * MS, .compute_ns = 40 * MS}};
    uint64_t larger[TASKS] = {0, 0}, before[TASKS] = {0, program->slow_budget}, wrong[TASKS] = {0, sizeof arena};
    expect("a change", eyelet_set_change(set, larger, timings, TASKS, &why), EYELET_OK, &why);
    both(program, 1);
    expect("a change", eyelet_set_change(set, wrong, timings, TASKS, &why), EYELET_ARENA, &why);
    both(program, 1);
    expect("a change", eyelet_set_change(set, before, timings, TASKS, &why), EYELET_OK, &why);
    both(program, 1);
    expect("a set in itself", eyelet_set_run(set, &(eyelet_functions){0}, body, context, &why), EYELET_STATE, &why);
}

static void check(struct program *program)
{
    eyelet_error why;
    eyelet_counts counts;
    uint64_t jobs = 0;
    for (uint32_t task = 0; task < TASKS; task++) {
        expect("counts", eyelet_set_counts(program->set, task, &counts, &why), EYELET_OK, &why);
        if (counts.jobs != program->ended[task] || counts.failed != program->failed[task])
            fail("counts", "are not the program's");
        printf("task %" PRIu32 ": %" PRIu64 " jobs, %" PRIu64 " misses, %" PRIu64 " failed, worst response %" PRIu64 " us, digest %016" PRIx64 "\n", task,
               counts.jobs, counts.misses, counts.failed, counts.worst_response_ns / 1000, program->alone[task]);
        jobs += counts.jobs + counts.failed;
    }
    struct card *card = &program->cards[SLOW];
    printf("card: %" PRIu64 " bytes read, %" PRIu64 " of them while steps computed\n", card->bytes, card->unattended);
    if (card->unattended == 0)
        fail("the card", "has read nothing while steps computed");
    expect("counts of none", eyelet_set_counts(program->set, TASKS, &counts, &why), EYELET_ARGUMENT, &why);
    expect("a step outside", eyelet_set_step(program->set, &why), EYELET_STATE, &why);
    if (program->preemptions == 0)
        fail("the urgent network", "has never gone ahead between two steps of the other");
    if ((uint64_t)program->misused != jobs)
        fail("a function that the set calls", "could use the set");
}

int main(int count, char **words)
{
    static struct program program;
    eyelet_error why;
    if (count != 4)
        fail("usage", "two_networks URGENT.pack SLOW.pack BUDGET");
    program.slow_budget = strtoull(words[3], NULL, 10);
    eyelet_task tasks[TASKS] = {{.timing = {.period_ns = 20 * MS, .compute_ns = 5 * MS}},
                                {.timing = {.period_ns = 50 * MS, .compute_ns = 40 * MS}, .budget = program.slow_budget}};
    for (int task = 0; task < TASKS; task++) {
        struct card *card = &program.cards[task];
        card->file = fopen(words[1 + task], "rb");
        if (!card->file || fseek(card->file, 0, SEEK_END) != 0)
            fail(words[1 + task], "cannot be opened");
        tasks[task].pack = (eyelet_source){.kind = EYELET_CALLBACK, .bytes = (uint64_t)ftell(card->file), .read = read_card, .context = card};
        if (task == SLOW) {
            tasks[task].pack.start = start_read;
            tasks[task].pack.poll = poll_read;
            tasks[task].pack.finish = finish_read;
            tasks[task].pack.reads = READS;
        }
        program.alone[task] = alone(&tasks[task].pack, tasks[task].budget);
    }
    /* Room for the largest plan of the slow network. */
    tasks[SLOW].room = eyelet_arena_bytes(&tasks[SLOW].pack, 0, 1, &why);
    eyelet_set_options options = {.threads = 1};
    uint64_t bytes = eyelet_set_bytes(tasks, TASKS, 1, &why);
    if (bytes == 0 || bytes > sizeof arena)
        fail("the arena", bytes ? "is too small" : why.text);
    expect("too small an arena", eyelet_set_open(&program.set, tasks, TASKS, arena, bytes - EYELET_PAGE, &options, &why), EYELET_ARENA, &why);
    tasks[SLOW].pack.finish = NULL;
    expect("reads without an end", eyelet_set_open(&program.set, tasks, TASKS, arena, bytes, &options, &why), EYELET_ARGUMENT, &why);
    tasks[SLOW].pack.finish = finish_read;
    expect("no tasks", eyelet_set_open(&program.set, tasks, 0, arena, bytes, &options, &why), EYELET_ARGUMENT, &why);
    expect("a set", eyelet_set_open(&program.set, tasks, TASKS, arena, bytes, &options, &why), EYELET_OK, &why);
    printf("arena: %" PRIu64 " bytes\n", bytes);
    eyelet_functions functions = {.inputs = inputs, .outputs = outputs, .failed = failed, .event = event, .now = now, .context = &program};
    expect("no functions", eyelet_set_run(program.set, NULL, body, &program, &why), EYELET_ARGUMENT, &why);
    expect("a run", eyelet_set_run(program.set, &functions, body, &program, &why), EYELET_OK, &why);
    check(&program);
    eyelet_set_close(program.set);
    for (int task = 0; task < TASKS; task++)
        fclose(program.cards[task].file);
    return 0;
}
