#include "config.h"

#include "emulator.h"

#include <stdio.h>
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
    {"seed", &Config::seed},
    {"delay_us", &Config::delay_us},
};

/* FUNCTION:CODE:CALL, and what follows it. */
const char *parse_fail(const char *text, Config &to)
{
    int length = 0;
    if (sscanf(text, "%47[A-Za-z0-9]:%d:%ld%n", to.fail, &to.fail_code, &to.fail_at, &length) != 3)
        return nullptr;
    return text + length;
}

bool parse(const char *text, Config &to)
{
    while (*text) {
        if (!strncmp(text, "fail=", 5)) {
            text = parse_fail(text + 5, to);
            if (!text || (*text && *text++ != ','))
                return false;
            continue;
        }
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
    c.number = the().number + 1;
    the() = c;
    return true;
}

int injected(const char *function)
{
    Config &c = the();
    const size_t length = strlen(c.fail);
    const bool named = length && !strncmp(function, c.fail, length) &&
                       (!function[length] || !strcmp(function + length, "_v2"));
    return named && c.fail_at > 0 && --c.fail_at == 0 ? c.fail_code : 0;
}
