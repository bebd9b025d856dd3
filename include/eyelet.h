/*
 * eyelet in C: neural networks that are larger than the memory they are given.
 *
 * A pack, made by `eyelet plan` on a host, is opened in memory of the caller's, the arena. All that the network ever needs is
 * in there: tables, weights on their way, activations, inputs and outputs, and the model's own record. The library never allocates.
 *
 *     eyelet_source pack = { .kind = EYELET_DIRECT, .path = "net.pack" };
 *     eyelet_error why;
 *     uint64_t bytes = eyelet_arena_bytes(&pack, 0, 0, &why);
 *     void *arena = bytes ? eyelet_map(bytes, &why) : NULL;
 *     eyelet_model *model;
 *     if (!arena || eyelet_open(&model, &pack, arena, bytes, NULL, &why) != EYELET_OK)
 *         fail(why.text);
 *     for (;;) {
 *         capture(eyelet_input(model, 0, NULL));
 *         if (eyelet_infer(model, &why) != EYELET_OK)
 *             fail(why.text);
 *         act_on(eyelet_output(model, 0, NULL));
 *     }
 *
 * Who owns what. The arena, and what a source points to, are the caller's; they are lent to the model from eyelet_open to
 * eyelet_close (a file's path only during the call), and nobody else may touch them meanwhile but as said below. A model is not
 * copied or moved: it is known by its address, which is inside of the arena.
 *
 * Threads. A model may be used from any thread, by one at a time. Different models have nothing in common. A model has
 * threads of its own where it was opened so, which wait while no inference is under way and end with eyelet_close; they block
 * all signals. After fork() a child may not use its parent's models.
 *
 * Errors. What can fail returns EYELET_OK, which is 0, or a negative number, and then fills in *error if that is not NULL; the
 * record is not touched otherwise. Whatever else such a function writes is all zero, and NULL for a pointer, after an error. A pack
 * is untrusted: whatever is in it, the worst that comes of it is an error. A null pointer where something is needed is an error, too. Nothing is thrown and no call jumps out; errno is not part of the interface.
 *
 * Units. Sizes are bytes, times nanoseconds, tensors row-major in the model's own shape (images mostly as batch, channels,
 * height, width). Their elements are 32-bit floats, or 32-bit integers where the model has integers or truth values (eyelet_kind).
 */
#ifndef EYELET_H
#define EYELET_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the library's eyelet_version() must be. */
#define EYELET_VERSION 4u
uint32_t eyelet_version(void);

/* What arenas are aligned to. */
#define EYELET_PAGE 4096u

/* What functions return. */
enum {
    EYELET_OK = 0,
    EYELET_RUNNING = 1,    /* eyelet_step only: more steps follow */
    EYELET_ARGUMENT = -1,  /* an argument is missing, or says what cannot be; or an
                            * input has an index outside of a table */
    EYELET_STORAGE = -2,   /* the storage failed */
    EYELET_PACK = -3,      /* the pack is none, or damaged */
    EYELET_PROCESSOR = -4, /* the pack is for another processor */
    EYELET_ARENA = -5,     /* the memory is too small, or not aligned */
    EYELET_THREADS = -6,   /* threads could not be had, or the plan has scratch for fewer */
    EYELET_STATE = -7,     /* not now: an inference is under way, or the last change of budget or shape failed */
    EYELET_DEVICE = -8,    /* a device failed */
    EYELET_EARLY = -9,     /* a set's job before its task's period has passed */
    EYELET_UNFINISHED = -10 /* a set's job while its task's last one has not ended: it is lost, and counts as a miss */
};

typedef struct eyelet_error {
    int32_t status; /* the number that was returned */
    char text[252]; /* what failed and where, the numbers that disagree, and what to do; UTF-8, terminated; one that is cut off ends in an ellipsis */
} eyelet_error;

/* The most reads of a source in flight. */
#define EYELET_READS 8u

/* Where a pack is. */
enum {
    EYELET_DIRECT = 0,   /* Linux: a file, read past the page cache, so that no copy of it takes memory */
    EYELET_BUFFERED = 1, /* Linux: a file, read through the page cache */
    /*
     * Linux: a file, mapped and brought into memory as a whole. Its length is checked before every read. If the file is cut short, or
     * its storage fails, during a read, the kernel raises SIGBUS: replace a pack by renaming another over it, never in place. A
     * program that cannot rely on that reads by EYELET_DIRECT or EYELET_BUFFERED, where the same is an error.
     */
    EYELET_MAPPED = 2,
    EYELET_MEMORY = 3,   /* addressable memory, such as flash */
    EYELET_CALLBACK = 4  /* whatever `read` reads */
};

typedef struct eyelet_source {
    uint32_t kind;
    uint32_t alignment; /* EYELET_CALLBACK: power of two up to 4096 of which offsets, lengths and addresses are multiples; 0 for 1 */
    const char *path;   /* of a file */
    const void *memory; /* EYELET_MEMORY: the pack's first byte, at a multiple of 64 where the pack is used in place */
    uint64_t bytes;     /* EYELET_MEMORY, EYELET_CALLBACK: the pack's length */
    /*
     * EYELET_CALLBACK: reads `bytes` bytes from byte `offset` of the pack on to `into`, and returns 0; or a number of its own other than 0,
     * which is in the error's text. It is never called by two threads at a time, but may be by the model's own thread,
     * which has a stack of 256 KiB and blocks all signals. It must not use the model.
     */
    int32_t (*read)(void *context, uint64_t offset, void *into, size_t bytes);
    void *context;
    /*
     * EYELET_CALLBACK, where the device reads by itself; else NULL. `start` begins a read as `read` would do it, gives it the number that it
     * is told, and returns at once. `poll` says whether the read of a number has ended: 0 while it goes on; it may be NULL. `finish` waits for that
     * read, and returns 0 or an error's number; the number is then free. From `start` to the return of `finish` the bytes are the device's;
     * before and afterwards, whatever came of it, the device writes nothing. So many `reads` are in flight at most: 1 to EYELET_READS; 0 is 1.
     *
     * A set's reads then go on while its steps compute, on the caller's thread. So do those of a model with a thread that loads.
     */
    int32_t (*start)(void *context, uint32_t number, uint64_t offset, void *into, size_t bytes);
    int32_t (*poll)(void *context, uint32_t number);
    int32_t (*finish)(void *context, uint32_t number);
    uint32_t reads;
    uint32_t reserved; /* 0 */
} eyelet_source;

/*
 * Bytes of arena for the plan that eyelet_open chooses with this budget and number of threads, the model's own record
 * (less than a page) included; a whole number of pages. 0 on an error.
 *
 * A pack holds one plan or several. Chosen is the one with the largest budget of those that need at most `budget` bytes and have
 * scratch for `threads` threads. 0 is no limit, and any number of threads. Of a pack of several shapes these are the bytes for
 * the shape that needs most, so that each can be set; a shape without a plan for so little is left out.
 */
uint64_t eyelet_arena_bytes(const eyelet_source *source, uint64_t budget, uint32_t threads, eyelet_error *error);

/*
 * Bytes of fast memory for that plan: 0, unless the pack is planned for a board that has some, such as tightly coupled memory next to
 * the arena's. -1 on an error.
 */
int64_t eyelet_fast_bytes(const eyelet_source *source, uint64_t budget, uint32_t threads, eyelet_error *error);

/*
 * Linux: bytes of a source's file that are in the page cache, whose memory no budget counts. For EYELET_DIRECT, after an inference:
 * those that others had left there, which are dropped; an error if they stay, or if direct reads bring them back (file systems that
 * compress, or are in memory). -1 on an error, also if it is unknown (a file of another user).
 */
int64_t eyelet_page_cache(const eyelet_source *source, eyelet_error *error);

/*
 * Linux: an arena of zeros, aligned, and in huge pages as far as the system has them, which makes a difference of several percent. Memory is resident
 * from when it is first touched; but the last bytes, which fill no huge page, at once. NULL on an error.
 *
 * Any other memory that starts on a page will do: a static array with _Alignas(EYELET_PAGE), mmap, aligned_alloc.
 */
void *eyelet_map(uint64_t bytes, eyelet_error *error);
void eyelet_unmap(void *arena, uint64_t bytes);

/* How a model is opened. All zero, or NULL in place of it, is what most want. */
typedef struct eyelet_options {
    uint64_t budget;       /* as for eyelet_arena_bytes */
    uint32_t threads;      /* compute threads, the caller's included; 0: as planned, but no more than there are cores */
    uint32_t load_inline;  /* not 0: weights are loaded between steps by the caller's thread; else a thread loads beside it, if anything is to be loaded */
    uint32_t no_verify;    /* not 0: what is read is not compared with its checksums */
    uint32_t depth;        /* reads under way at once, at most; 0: as many as the source can have (4 of EYELET_DIRECT, 1 of others) */
    /*
     * NULL, or `threads` numbers: the core that each keeps to. The first is the caller's, which pins itself, if it wants to, after
     * eyelet_open: the thread that loads may run where the one that opened could, and a single core has no room for both.
     */
    const uint32_t *cores;
    /*
     * Multiply-adds and elements of one step, counted together, at most: a pack with a step that does more is refused (EYELET_PACK), so
     * that no pack keeps eyelet_step from returning as long as it likes. 0: 2^40, a hundred times what usual networks need.
     */
    uint64_t step_work;
    uint32_t shape; /* which of the pack's shapes is computed first, from 0 on: the order in which they were planned */
    /*
     * Fast memory for scratch and buffers, at a multiple of 64, beside the arena: at least the eyelet_fast_bytes of the plan. It is lent to the
     * model as the arena is. NULL and 0 for none.
     */
    void *fast;
    uint64_t fast_bytes;
} eyelet_options;

typedef struct eyelet_model eyelet_model;

/*
 * Opens a pack in an arena, which starts on a page: reads the tables, proves them, loads the weights that stay, and starts threads. Writes
 * *model, NULL on an error; after one, nothing is kept and the arena holds anything.
 */
int32_t eyelet_open(eyelet_model **model, const eyelet_source *source, void *arena, uint64_t bytes,
                    const eyelet_options *options, eyelet_error *error);

/* Ends the model's threads. Source and arena are the caller's again. NULL is nothing. */
void eyelet_close(eyelet_model *model);

/* The types that models give inputs and outputs. Up to EYELET_F64 they are floats here, from EYELET_BOOL on words: int32_t. */
enum eyelet_kind {
    EYELET_F32 = 0,
    EYELET_F16 = 1,
    EYELET_BF16 = 2,
    EYELET_F64 = 3,
    EYELET_BOOL = 4, /* 0 and 1 */
    EYELET_I8 = 5,
    EYELET_U8 = 6,
    EYELET_I16 = 7,
    EYELET_U16 = 8,
    EYELET_I32 = 9,
    EYELET_U32 = 10,
    EYELET_I64 = 11, /* as far as 32 bits hold them */
    EYELET_U64 = 12
};

/* An input or output of the network. */
typedef struct eyelet_tensor {
    const char *name; /* as in the model; UTF-8, not terminated; valid until the shape is changed, or eyelet_close */
    uint64_t name_bytes;
    uint64_t elements; /* the product of the shape */
    uint32_t rank;     /* number of dimensions */
    uint32_t kind;     /* the model's type: eyelet_kind */
    uint32_t shape[8]; /* unused ones are 1 */
} eyelet_tensor;

uint32_t eyelet_inputs(eyelet_model *model);
uint32_t eyelet_outputs(eyelet_model *model);
int32_t eyelet_input_info(eyelet_model *model, uint32_t index, eyelet_tensor *info, eyelet_error *error);
int32_t eyelet_output_info(eyelet_model *model, uint32_t index, eyelet_tensor *info, eyelet_error *error);

/*
 * Where an input is to be written before an inference, or an output of the last one is read; both are in the arena. *elements, if not NULL, is
 * the number of elements. NULL and 0 where there is none of that number, or it is of another type than the function's, or while
 * an inference is under way. Floats have eyelet_input and eyelet_output, integers and truth values the other two.
 *
 * Inputs do not keep their values over an inference. The pointers hold until the next inference or change of budget or shape.
 */
float *eyelet_input(eyelet_model *model, uint32_t index, uint64_t *elements);
const float *eyelet_output(eyelet_model *model, uint32_t index, uint64_t *elements);
int32_t *eyelet_input_words(eyelet_model *model, uint32_t index, uint64_t *elements);
const int32_t *eyelet_output_words(eyelet_model *model, uint32_t index, uint64_t *elements);

/* One inference, or the rest of the one under way. After an error the next one starts over; storage that has healed is used again. */
int32_t eyelet_infer(eyelet_model *model, eyelet_error *error);

/*
 * One step of an inference, the first if none is under way: EYELET_RUNNING, or EYELET_OK after the last. Between two steps the
 * caller does what it has to, such as kicking a watchdog.
 */
int32_t eyelet_step(eyelet_model *model, eyelet_error *error);

/* What a change of budget or shape took. */
typedef struct eyelet_switch {
    uint64_t kept_bytes;  /* of weights that stay, where they were */
    uint64_t moved_bytes; /* of those, from elsewhere in the arena */
    uint64_t read_bytes;  /* of those, from the source */
    uint64_t total_ns;
} eyelet_switch;

/*
 * Changes, between two inferences, to the plan with the largest budget that needs at most so many bytes of the arena. 0 is no limit, and so is
 * the length of the arena, although the model's own record is at its end; more is EYELET_ARENA. Inputs and outputs lose their values.
 *
 * After EYELET_STATE, EYELET_ARENA and EYELET_THREADS nothing has changed; after other errors there is no plan until a budget or
 * a shape is set again. *took may be NULL.
 */
int32_t eyelet_set_budget(eyelet_model *model, uint64_t bytes, eyelet_switch *took, eyelet_error *error);

/*
 * The shapes of a pack: the same network for several sizes of its inputs, which share their weights. Their number, and the number
 * of the one that is computed, from 0 on. 0 without a model.
 */
uint32_t eyelet_shapes(eyelet_model *model);
uint32_t eyelet_shape(eyelet_model *model);

/*
 * Changes, between two inferences, to another shape: to its plan with the largest budget within the budget that was set last.
 * Inputs and outputs then have that shape's extents, and lose their values. Weights that both plans keep stay in the arena.
 *
 * After EYELET_ARGUMENT, EYELET_STATE, EYELET_ARENA and EYELET_THREADS nothing has changed; after other errors there is no plan,
 * no input and no output until a shape or a budget is set again. *took may be NULL.
 */
int32_t eyelet_set_shape(eyelet_model *model, uint32_t shape, eyelet_switch *took, eyelet_error *error);

/*
 * The part of the arena that the plan has no use for, and in *bytes its length; NULL and 0 if there is none. It is the caller's until the
 * budget is changed to a larger one, or the shape is changed.
 */
void *eyelet_unused(eyelet_model *model, uint64_t *bytes);

/* The plan that is followed; all zero without a model. */
typedef struct eyelet_plan_info {
    uint64_t budget_bytes;   /* it was made for */
    uint64_t arena_bytes;    /* that it needs */
    uint64_t resident_bytes; /* of weights that stay */
    uint64_t read_bytes;     /* of weights, in every inference */
    uint64_t predicted_ns;   /* of an inference; 0 where nothing was predicted */
    uint32_t steps;
    uint32_t threads; /* that compute */
} eyelet_plan_info;
void eyelet_plan(eyelet_model *model, eyelet_plan_info *info);

/* Times of the last inference; all zero without a model. */
typedef struct eyelet_times_info {
    uint64_t compute_ns; /* in kernels */
    uint64_t stall_ns;   /* waiting for weights; with load_inline: loading them */
} eyelet_times_info;
void eyelet_times(eyelet_model *model, eyelet_times_info *times);

/*
 * Several networks in one arena, each with deadlines: a set. Which one works next is decided by the deadlines of their jobs, between two
 * steps. So an urgent network goes ahead in the middle of another's inference, and the outputs stay those of each network alone.
 *
 *     eyelet_task tasks[2] = {
 *         {.pack = urgent, .timing = {.period_ns = 20000000, .compute_ns = 5000000}},
 *         {.pack = slow, .timing = {.period_ns = 100000000, .compute_ns = 40000000}},
 *     };
 *     eyelet_set *set;
 *     if (eyelet_set_open(&set, tasks, 2, arena, sizeof arena, NULL, &why) != EYELET_OK)
 *         fail(why.text);
 *     eyelet_set_run(set, &functions, body, NULL, &why);
 *
 *     static void body(void *context, eyelet_set *set)
 *     {
 *         for (;;) {
 *             if (sensor_has_fired())
 *                 eyelet_set_release(set, 0, eyelet_now(), NULL);
 *             eyelet_set_step(set, NULL);
 *         }
 *     }
 *
 * The arena and the sources are lent to the set from eyelet_set_open to eyelet_set_close. A set may be used from any thread, by one at
 * a time. Reads go on while steps compute as far as the source can; without a queue, a step reads what it needs.
 */
typedef struct eyelet_set eyelet_set;
typedef struct eyelet_ports eyelet_ports;

/* The most tasks of a set. */
#define EYELET_SET_TASKS 8u

/* The times of a task. `eyelet schedule` proves them. */
typedef struct eyelet_timing {
    uint64_t period_ns;   /* least time between two jobs */
    uint64_t deadline_ns; /* from a job's release to its latest end; 0: the period */
    uint64_t jitter_ns;   /* a job is released at most this long after it arrives; with the deadline at most the period */
    uint64_t compute_ns;  /* all steps of a job, at worst */
    uint64_t step_ns;     /* the longest step; 0: all of them */
} eyelet_timing;

/* A network that runs again and again. */
typedef struct eyelet_task {
    eyelet_source pack;
    uint64_t budget; /* bytes that its first plan may have; 0: as many as it has room */
    uint64_t room;   /* bytes of the arena that stay the network's, so that its budget can be changed up to there; 0: what the first plan needs */
    eyelet_timing timing;
    uint32_t shape;    /* as in eyelet_options */
    uint32_t reserved; /* 0 */
} eyelet_task;

/* How a set is opened. All zero, or NULL in place of it, is what most want. The fields are those of eyelet_options. */
typedef struct eyelet_set_options {
    uint32_t threads; /* that compute; 0: as many as all plans are for, but no more than there are cores */
    uint32_t no_verify;
    uint32_t depth; /* of each network */
    const uint32_t *cores;
    uint64_t step_work;
} eyelet_set_options;

/* Bytes of arena for a set, its record included; a whole number of pages. 0 on an error. */
uint64_t eyelet_set_bytes(const eyelet_task *tasks, uint32_t count, uint32_t threads, eyelet_error *error);

/* Opens a set in an arena, which starts on a page. Writes *set, NULL on an error, which names the task by its place from 0 on. */
int32_t eyelet_set_open(eyelet_set **set, const eyelet_task *tasks, uint32_t count, void *arena, uint64_t bytes,
                        const eyelet_set_options *options, eyelet_error *error);

/*
 * On Linux: opens the set of a file that `eyelet schedule -o FILE.pack` has written, with the memory, the chunks, the levels and the times
 * that were scheduled. The set takes the networks' memory from the system, all of it at once: chunks of weights come and go in it. The
 * caller's memory, which starts on a page, holds the record alone; eyelet_set_file_bytes says how much, 0 on an error. The file is opened
 * once for each task. A file of more than EYELET_SET_TASKS tasks is refused.
 */
uint64_t eyelet_set_file_bytes(const eyelet_source *file, eyelet_error *error);
int32_t eyelet_set_open_file(eyelet_set **set, const eyelet_source *file, void *memory, uint64_t bytes, const eyelet_set_options *options,
                             eyelet_error *error);

/* Memory and sources are the caller's again. NULL is nothing. Does nothing while the set is at work. */
void eyelet_set_close(eyelet_set *set);

/* A job that has ended. */
typedef struct eyelet_job {
    uint32_t task;
    uint32_t missed; /* not 0: after its deadline */
    uint64_t response_ns;
} eyelet_job;

/* What begins or ends. Chunks are those of a set from one file. */
enum {
    EYELET_RELEASED = 0,
    EYELET_STEP_BEGINS = 1,
    EYELET_STEP_ENDS = 2,
    EYELET_ENDED = 3,
    EYELET_STARTS_OVER = 4,
    EYELET_GIVEN_UP = 5,
    EYELET_CHUNK_BEGINS = 6,
    EYELET_CHUNK_ENDS = 7,
    EYELET_CHUNK_FAILS = 8,
    EYELET_CHUNK_LEAVES = 9
};

/*
 * The program's functions, which the set calls on the caller's thread. Each may be NULL. They must return, and must not use the set:
 * calls from within are refused (EYELET_STATE).
 */
typedef struct eyelet_functions {
    void (*inputs)(void *context, uint32_t task, eyelet_ports *ports);                 /* a job is about to compute: write its inputs */
    void (*outputs)(void *context, const eyelet_job *job, eyelet_ports *ports);        /* a job has ended: its outputs are there until this returns */
    void (*failed)(void *context, uint32_t task, const eyelet_error *why);             /* a job was given up; the task's next one tries again */
    void (*event)(void *context, uint32_t event, uint32_t task, uint64_t now_ns);      /* for traces */
    uint64_t (*now)(void *context); /* a clock that never goes back; NULL: eyelet_now, but without Linux it must be there */
    void *context;
} eyelet_functions;

/* Inputs and outputs of a job, as long as the function that was called with them has not returned. As eyelet_input and its like. */
float *eyelet_ports_input(eyelet_ports *ports, uint32_t index, uint64_t *elements);
const float *eyelet_ports_output(eyelet_ports *ports, uint32_t index, uint64_t *elements);
int32_t *eyelet_ports_input_words(eyelet_ports *ports, uint32_t index, uint64_t *elements);
const int32_t *eyelet_ports_output_words(eyelet_ports *ports, uint32_t index, uint64_t *elements);
int32_t eyelet_ports_input_info(eyelet_ports *ports, uint32_t index, eyelet_tensor *info, eyelet_error *error);
int32_t eyelet_ports_output_info(eyelet_ports *ports, uint32_t index, eyelet_tensor *info, eyelet_error *error);

/*
 * Calls `body` with the set at work, and returns when it has returned; EYELET_OK whatever it did. The functions from eyelet_set_release to
 * eyelet_set_change are only for it. No read is in flight afterwards, and jobs that have not ended are given up. Counts and periods go on
 * when the set is run again. `body` must return: it must not jump out.
 */
int32_t eyelet_set_run(eyelet_set *set, const eyelet_functions *functions, void (*body)(void *context, eyelet_set *set), void *context,
                       eyelet_error *error);

/* A job of the task has arrived, at a time of the set's clock. EYELET_EARLY and EYELET_UNFINISHED: it is not released. */
int32_t eyelet_set_release(eyelet_set *set, uint32_t task, uint64_t now_ns, eyelet_error *error);

/*
 * What comes next: at most one step of one network. EYELET_RUNNING, or EYELET_OK where no job can go on. A job that fails is given up,
 * and `failed` is called; that is no error of the set.
 */
int32_t eyelet_set_step(eyelet_set *set, eyelet_error *error);

/* Steps until that time, or until no job can go on. EYELET_RUNNING, or EYELET_OK as above. */
int32_t eyelet_set_run_until(eyelet_set *set, uint64_t until_ns, eyelet_error *error);

/* Gives up a task's job, and releases none of it until it is started again. */
int32_t eyelet_set_stop(eyelet_set *set, uint32_t task, eyelet_error *error);
int32_t eyelet_set_start(eyelet_set *set, uint32_t task, eyelet_error *error);

/*
 * Changes all networks to their plans with the largest budgets that need at most so many bytes, and to these times: all, or none. `count` is
 * the number of tasks. 0 is as many bytes as the network has room. Weights that two plans share stay. A job that was in the middle of an
 * inference starts over, if its network gets another plan: `inputs` is called again. Its deadline stays. On an error all networks have the
 * plans and times that they had. If one cannot go back to its plan, the error says so: its jobs fail until budgets are changed again.
 */
int32_t eyelet_set_change(eyelet_set *set, const uint64_t *budgets, const eyelet_timing *timings, uint32_t count, eyelet_error *error);

/* Counts of a task since the set was opened. */
typedef struct eyelet_counts {
    uint64_t jobs;             /* that ended */
    uint64_t misses;           /* that ended late, or were lost because the one before had not ended */
    uint64_t failed;           /* that were given up */
    uint64_t compute_overruns; /* jobs that took longer than compute_ns */
    uint64_t step_overruns;    /* steps that took longer than step_ns */
    uint64_t worst_response_ns;
} eyelet_counts;
int32_t eyelet_set_counts(eyelet_set *set, uint32_t task, eyelet_counts *counts, eyelet_error *error);

/* How many tasks there are, and the times of one. */
uint32_t eyelet_set_tasks(const eyelet_set *set);
int32_t eyelet_set_timing(eyelet_set *set, uint32_t task, eyelet_timing *timing, eyelet_error *error);

/* The name of a task of a file: so many bytes of UTF-8, not terminated. NULL where there is none. */
const char *eyelet_set_name(const eyelet_set *set, uint32_t task, uint64_t *bytes);

/* Linux: the system's clock, which a set goes by where it has no other; else 0. */
uint64_t eyelet_now(void);

/*
 * Without Linux: the program's own, called after a panic of the library, which is a bug in it; it must not return. Linux
 * aborts the process.
 */
void eyelet_panicked(void);

#ifdef __cplusplus
}
#endif

#endif
