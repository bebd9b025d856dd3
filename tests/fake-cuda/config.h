/* What GPU the fake driver pretends to have: `name=value` pairs with commas between them.
 *
 *   devices=1 driver=12060 capability=90 multiprocessors=4 integrated=0 virtual_memory=1
 *   memory=17179869184     bytes
 *   seed=1 delay_us=0      of the order of streams; before each kernel and copy
 *   fail=cuMemAlloc:2:3    the third call returns 2. An error of 700 to 719 stays with the context; one of
 *                          cuLaunchKernel's or of an asynchronous copy's comes when the work's turn has come. */
#ifndef EYELET_CONFIG_H
#define EYELET_CONFIG_H

#include <stddef.h>

struct Config {
    size_t devices = 1;
    size_t driver = 12060;
    size_t capability = 90; /* ten times the major version, and the minor one */
    size_t multiprocessors = 4;
    size_t integrated = 0;
    size_t virtual_memory = 1;
    size_t memory = (size_t)16 << 30;
    size_t seed = 1;
    size_t delay_us = 0;
    char fail[48] = "";
    int fail_code = 0;
    long fail_at = 0; /* calls until then */
    unsigned number = 0; /* of configurations before */
};

const Config &config();
/* Starts from the defaults. False where a name or a value is not understood; then nothing changes. */
bool configure(const char *text);
/* Counts a call of a function; the error that it is to return. */
int injected(const char *function);

#endif
