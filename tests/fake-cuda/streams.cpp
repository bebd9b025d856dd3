#include "streams.h"

#include "config.h"

#include <algorithm>
#include <condition_variable>
#include <thread>
#include <time.h>
#include <vector>

std::mutex driver_lock;

namespace {

/* Never destroyed: the thread outlives everything else. */
struct State {
    std::vector<Stream *> streams;
    std::vector<Stream *> wanted; /* somebody waits for them */
    std::condition_variable changed;
    uint64_t random = 0;
    unsigned configured = 0;
    unsigned epoch = 0; /* operations until the next mood */
    bool lazy = false;
};

State &state()
{
    static State *state = new State;
    return *state;
}

uint64_t draw(uint64_t below)
{
    uint64_t &x = state().random;
    x = x * 6364136223846793005u + 1442695040888963407u;
    return (x >> 33) % below;
}

double now_ms()
{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

bool can_go_on(const Stream *s)
{
    if (s->queue.empty())
        return false;
    const Operation &next = s->queue.front();
    return !(next.event && next.waits) || next.event->done >= next.mark;
}

bool marks(const Stream *s, const Event *event, uint64_t mark)
{
    return std::any_of(s->queue.begin(), s->queue.end(), [&](const Operation &o) {
        return o.event == event && !o.waits && o.mark <= mark;
    });
}

/* The streams that must go on for those that somebody waits for. */
std::vector<Stream *> needed()
{
    std::vector<Stream *> list = state().wanted;
    for (size_t i = 0; i < list.size(); i++)
        for (const Operation &o : list[i]->queue)
            if (o.event && o.waits && o.event->done < o.mark)
                for (Stream *s : state().streams)
                    if (marks(s, o.event, o.mark) && std::find(list.begin(), list.end(), s) == list.end())
                        list.push_back(s);
    return list;
}

void run_one(Lock &lock, Stream *s)
{
    Operation operation = std::move(s->queue.front());
    s->queue.pop_front();
    if (operation.event) {
        if (!operation.waits) {
            operation.event->done = std::max(operation.event->done, operation.mark);
            operation.event->ms = now_ms();
        }
    } else {
        s->running = true;
        lock.unlock();
        if (const size_t us = config().delay_us)
            std::this_thread::sleep_for(std::chrono::microseconds(us));
        const int error = operation.work();
        lock.lock();
        s->running = false;
        if (error && !s->context->sticky) {
            s->context->sticky = error;
            for (Stream *other : state().streams)
                if (other->context == s->context)
                    other->queue.clear();
        }
    }
    auto &all = state().streams;
    all.erase(std::remove_if(all.begin(), all.end(), [](Stream *x) { return x->kind == DEAD && x->idle(); }),
              all.end());
    state().changed.notify_all();
}

void drain()
{
    Lock lock(driver_lock);
    State &s = state();
    s.random = config().seed;
    for (;;) {
        if (s.configured != config().number) {
            s.configured = config().number;
            s.random = config().seed;
            s.epoch = 0;
        }
        if (s.epoch == 0) {
            s.epoch = (unsigned)(1 + draw(64));
            s.lazy = draw(2);
        }
        std::vector<Stream *> ready;
        /* What is waited for first, or anything. */
        const bool strict = s.lazy && !s.wanted.empty();
        for (Stream *stream : strict ? needed() : s.streams)
            if (can_go_on(stream))
                ready.push_back(stream);
        if (ready.empty() && strict)
            s.lazy = false;
        else if (ready.empty())
            s.changed.wait(lock);
        else if (s.lazy && s.wanted.empty() &&
                 s.changed.wait_for(lock, std::chrono::microseconds(100 + draw(400))) ==
                     std::cv_status::no_timeout)
            continue;
        else {
            s.epoch--;
            Stream *chosen = ready[draw(ready.size())];
            if (can_go_on(chosen))
                run_one(lock, chosen);
        }
    }
}

void add(Stream *stream, Operation operation)
{
    if (stream->context->sticky)
        return;
    stream->queue.push_back(std::move(operation));
    state().changed.notify_all();
}

/* Waits, with these streams as wanted ones. */
template <typename F> void finish_all(Lock &lock, const std::vector<Stream *> &streams, F is_done)
{
    State &s = state();
    if (is_done())
        return;
    s.wanted.insert(s.wanted.end(), streams.begin(), streams.end());
    s.changed.notify_all();
    s.changed.wait(lock, is_done);
    for (Stream *stream : streams)
        s.wanted.erase(std::find(s.wanted.begin(), s.wanted.end(), stream));
}

} // namespace

Stream *new_stream(Context *context, bool blocking)
{
    static bool started;
    if (!started) {
        started = true;
        std::thread(drain).detach();
    }
    Stream *stream = new Stream;
    stream->context = context;
    stream->blocking = blocking;
    state().streams.push_back(stream);
    return stream;
}

void submit(Stream *stream, std::function<int()> work) { add(stream, {std::move(work), nullptr, 0, false}); }

void record(Stream *stream, Event *event) { add(stream, {nullptr, event, ++event->issued, false}); }

void wait_for(Stream *stream, Event *event)
{
    if (event->issued)
        add(stream, {nullptr, event, event->issued, true});
}

void finish(Lock &lock, Stream *stream)
{
    finish_all(lock, {stream}, [&] { return stream->idle(); });
}

void finish(Lock &lock, Event *event, uint64_t mark)
{
    std::vector<Stream *> streams;
    for (Stream *s : state().streams)
        if (marks(s, event, mark))
            streams.push_back(s);
    finish_all(lock, streams, [&] { return event->done >= mark || event->context->sticky; });
}

void finish(Lock &lock, Context *context, bool only_blocking)
{
    std::vector<Stream *> streams;
    for (Stream *s : state().streams)
        if (s->context == context && (s->blocking || !only_blocking))
            streams.push_back(s);
    finish_all(lock, streams, [&] {
        return std::all_of(streams.begin(), streams.end(), [](Stream *s) { return s->idle(); });
    });
}
