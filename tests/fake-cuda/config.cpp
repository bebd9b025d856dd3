#include "config.h"

#include "emulator.h"

#include <stdlib.h>
#include <string.h>

namespace {

struct Name {
    const char *name;
    size_t Config::*field;
};

const Name NAMES[] = {
    {"devices", &Config::devices},
    {"driver", &Config::driver},
    {"capability", &Config::capability},
    {"multiprocessors", &Config::multiprocessors},
    {"integrated", &Config::integrated},
    {"virtual_memory", &Config::virtual_memory},
    {"memory", &Config::memory},
};

bool parse(const char *text, Config &to)
{
    while (*text) {
        const char *equals = strchr(text, '=');
        if (!equals)
            return false;
        const Name *found = nullptr;
        for (const Name &name : NAMES)
            if (strlen(name.name) == (size_t)(equals - text) && !strncmp(name.name, text, (size_t)(equals - text)))
                found = &name;
        char *end;
        const unsigned long long value = strtoull(equals + 1, &end, 10);
        if (!found || end == equals + 1 || (*end && *end != ','))
            return false;
        to.*found->field = value;
        text = *end ? end + 1 : end;
    }
    return true;
}

Config from_environment()
{
    Config c;
    const char *text = getenv("EYELET_FAKE_CUDA");
    if (text && !parse(text, c))
        die("EYELET_FAKE_CUDA=%s is not understood", text);
    return c;
}

Config &the()
{
    static Config c = from_environment();
    return c;
}

} // namespace

const Config &config() { return the(); }

bool configure(const char *text)
{
    Config c;
    if (!parse(text, c))
        return false;
    the() = c;
    return true;
}
