/*
 * Reads handwritten digits as firmware would: all memory is static, the pack comes from a function (a card, a flash chip), the caller's
 * thread does everything, and between two steps it has its turn, to kick a watchdog.
 *
 *     digits FILE.pack FILE.f32
 *
 * The second file has images of 8 by 8 pixels, 64 floats each. Prints the digit on each of them, one a line.
 */
#include "eyelet.h"

#include <stdio.h>

/* All the memory that the network will ever use: `eyelet plan` tells how much, and so does eyelet_arena_bytes. */
static _Alignas(EYELET_PAGE) unsigned char arena[1 << 20];

/* The library and this program mean the same by every record. */
#if UINTPTR_MAX > 0xffffffffu
_Static_assert(sizeof(eyelet_source) == 80 && offsetof(eyelet_source, read) == 32, "eyelet_source");
_Static_assert(sizeof(eyelet_options) == 64 && offsetof(eyelet_options, fast) == 48, "eyelet_options");
#endif
_Static_assert(sizeof(eyelet_error) == 256, "eyelet_error");
_Static_assert(sizeof(eyelet_tensor) == 64 || sizeof(void *) < 8, "eyelet_tensor");
_Static_assert(sizeof(eyelet_plan_info) == 48 && offsetof(eyelet_plan_info, steps) == 40, "eyelet_plan_info");
_Static_assert(sizeof(eyelet_switch) == 32 && sizeof(eyelet_times_info) == 16, "eyelet_switch");

static int32_t read_card(void *context, uint64_t offset, void *into, size_t bytes)
{
    FILE *card = context;
    return fseek(card, (long)offset, SEEK_SET) != 0 || fread(into, 1, bytes, card) != bytes;
}

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "digits: %s: %s\n", what, why);
    return 1;
}

int main(int count, char **words)
{
    if (count != 3)
        return fail("usage", "digits FILE.pack FILE.f32");
    FILE *card = fopen(words[1], "rb"), *images = fopen(words[2], "rb");
    if (!card || fseek(card, 0, SEEK_END) != 0)
        return fail(words[1], "cannot be opened");
    if (!images)
        return fail(words[2], "cannot be opened");
    if (eyelet_version() != EYELET_VERSION)
        return fail("eyelet.h", "is of another version than the library");

    eyelet_source pack = {.kind = EYELET_CALLBACK, .bytes = (uint64_t)ftell(card), .read = read_card, .context = card};
    eyelet_options options = {.threads = 1, .load_inline = 1};
    eyelet_model *model;
    eyelet_error why;
    if (eyelet_open(&model, &pack, arena, sizeof arena, &options, &why) != EYELET_OK)
        return fail(words[1], why.text);
    eyelet_tensor image;
    if (eyelet_input_info(model, 0, &image, &why) != EYELET_OK)
        return fail(words[1], why.text);
    if (image.elements != 64)
        return fail(words[1], "is no network for images of 8 by 8 pixels");

    while (fread(eyelet_input(model, 0, NULL), sizeof(float), 64, images) == 64) {
        int32_t status;
        while ((status = eyelet_step(model, &why)) == EYELET_RUNNING)
            ; /* here firmware kicks its watchdog */
        if (status != EYELET_OK)
            return fail(words[1], why.text);
        uint64_t classes, best = 0;
        const float *scores = eyelet_output(model, 0, &classes);
        for (uint64_t i = 1; i < classes; i++)
            if (scores[i] > scores[best])
                best = i;
        printf("%d\n", (int)best);
    }
    eyelet_close(model);
    fclose(images);
    fclose(card);
    return 0;
}
