/* Streams as queues that a thread empties, in an order that no program should rely on: at random among the streams that
 * can go on, and at times nothing at all until somebody waits or a while has passed. Copies touch the host's memory
 * when their turn comes. So what is not waited for is mostly not there yet. */
#ifndef EYELET_STREAMS_H
#define EYELET_STREAMS_H

#include <deque>
#include <functional>
#include <mutex>
#include <stddef.h>
#include <stdint.h>

/* Objects begin with what they are, so that a handle of another kind, or of something destroyed, is seen. They are
 * never freed. */
enum Kind : unsigned { DEAD = 0xdead, CONTEXT = 0xc0de1, MODULE, STREAM, EVENT };

template <typename T> bool is(const T *object, Kind kind) { return object && object->kind == kind; }

struct Stream;

struct Context {
    Kind kind = CONTEXT;
    Stream *legacy = nullptr;
    int sticky = 0; /* an error after which the context does nothing any more */
};

struct Event {
    Kind kind = EVENT;
    Context *context;
    uint64_t issued = 0; /* marks so far */
    uint64_t done = 0;   /* of which streams have reached so many */
    double ms = 0;       /* when, of the last */
    bool timed = false;
};

struct Operation {
    std::function<int()> work; /* or: */
    Event *event;
    uint64_t mark;
    bool waits; /* for the event's mark, or else makes it */
};

struct Stream {
    Kind kind = STREAM;
    Context *context;
    bool blocking;
    bool running = false;
    std::deque<Operation> queue;
    bool idle() const { return queue.empty() && !running; }
};

typedef std::unique_lock<std::mutex> Lock;
/* Held by every call of the driver's, and given up while one waits. */
extern std::mutex driver_lock;

Stream *new_stream(Context *context, bool blocking);
void submit(Stream *stream, std::function<int()> work);
void record(Stream *stream, Event *event);
void wait_for(Stream *stream, Event *event);

/* These return when all is done, or the context has an error that stays. */
void finish(Lock &lock, Stream *stream);
void finish(Lock &lock, Event *event, uint64_t mark);
void finish(Lock &lock, Context *context, bool only_blocking);

#endif
