/* What GPU the fake driver pretends to have: `name=value` pairs with commas between them.
 *
 *   devices=1 driver=12060 capability=90 multiprocessors=4 integrated=0 virtual_memory=1
 *   memory=17179869184 (bytes) */
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
};

const Config &config();
/* Starts from the defaults. False where a name or a value is not understood; then nothing changes. */
bool configure(const char *text);

#endif
