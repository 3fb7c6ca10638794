/* SPDX-License-Identifier: Apache-2.0
 *
 * The demo's kernels in C: two effects with a setting of its own for each sample, and the one that
 * the table measures. Nothing is needed but the header. */
#include <math.h>
#include <opabi/opabi.h>

#define PURE (OPABI_PURE | OPABI_DETERMINISTIC)

/* A sample of three colours. */
typedef struct picture {
  uint8_t *pixels;
  int64_t height, width;
} picture;

static picture open_picture(const opabi_tensor *tensor) {
  const picture opened = {tensor->data, tensor->shape[0], tensor->shape[1]};
  return opened;
}

/* The pixel at a place; beyond the border, the nearest one. */
static const uint8_t *pixel_at(const picture *p, int64_t y, int64_t x) {
  y = y < 0 ? 0 : y >= p->height ? p->height - 1 : y;
  x = x < 0 ? 0 : x >= p->width ? p->width - 1 : x;
  return p->pixels + (y * p->width + x) * 3;
}

/* ---- Paint: strokes that end at edges -------------------------------------------------------- */

typedef struct patch {
  float mean[3], spread;
} patch;

/* The mean colour of the square from `top`, `left`, and how far its pixels are from it. */
static patch measure(const picture *in, int64_t top, int64_t left, int64_t side) {
  patch found = {{0, 0, 0}, 0};
  for (int64_t y = top; y < top + side; y++) {
    for (int64_t x = left; x < left + side; x++) {
      const uint8_t *pixel = pixel_at(in, y, x);
      for (int k = 0; k < 3; k++) {
        found.mean[k] += pixel[k];
        found.spread += (float)(pixel[k] * pixel[k]);
      }
    }
  }
  const float n = (float)(side * side);
  found.spread /= n;
  for (int k = 0; k < 3; k++) {
    found.mean[k] /= n;
    found.spread -= found.mean[k] * found.mean[k];
  }
  return found;
}

/* Kuwahara's filter: of the four squares that meet in a pixel, the calmest gives its colour. */
static void paint_one(picture in, picture out, int64_t brush) {
  for (int64_t y = 0; y < out.height; y++) {
    for (int64_t x = 0; x < out.width; x++) {
      patch best = measure(&in, y - brush, x - brush, brush + 1);
      for (int i = 1; i < 4; i++) {
        const patch next = measure(&in, i & 1 ? y : y - brush, i & 2 ? x : x - brush, brush + 1);
        if (next.spread < best.spread) best = next;
      }
      uint8_t *pixel = out.pixels + (y * out.width + x) * 3;
      for (int k = 0; k < 3; k++) pixel[k] = (uint8_t)(best.mean[k] + 0.5f);
    }
  }
}

static int32_t paint(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) {
    const int64_t brush = *(const int64_t *)call->args[s].data;
    if (brush < 0 || brush > 64) {
      return OPABI_FAIL(call, s, OPABI_ERROR_VALUE, "brush: expected 0 to 64 pixels");
    }
    paint_one(open_picture(&call->inputs[s]), open_picture(&call->outputs[s]), brush);
  }
  return OPABI_OK;
}
static const opabi_arg paint_args[] = {
    {.name = "brush", .doc = "Pixels of a stroke.", .dtype = OPABI_INT64}};
OPABI_KERNEL(paint, "image: uint8[h,w,3] -> uint8[h,w,3]", .n_args = 1, .args = paint_args,
             .traits = PURE, .doc = "Paints the picture in strokes.");

/* ---- Halftone: dots of ink, as in print ------------------------------------------------------ */

/* A screen: dots `cell` pixels apart, in rows that are turned. */
typedef struct screen {
  float cell, cosine, sine;
} screen;

/* How much of a pixel is inked: the largest cover by one of the four dots round it. */
static float ink_at(const picture *in, const screen *grid, float y, float x, int colour) {
  const float u = floorf((grid->cosine * x + grid->sine * y) / grid->cell);
  const float v = floorf((grid->cosine * y - grid->sine * x) / grid->cell);
  float ink = 0;
  for (int i = 0; i < 4; i++) {
    const float du = (u + (float)(i & 1)) * grid->cell, dv = (v + (float)(i >> 1)) * grid->cell;
    const float dot_x = grid->cosine * du - grid->sine * dv;
    const float dot_y = grid->sine * du + grid->cosine * dv;
    const float light = pixel_at(in, (int64_t)roundf(dot_y), (int64_t)roundf(dot_x))[colour];
    const float radius = grid->cell * 0.75f * (1 - light / 255);
    ink = fmaxf(ink, radius + 0.5f - hypotf(dot_x - x, dot_y - y));
  }
  return fminf(ink, 1);
}

static void halftone_one(picture in, picture out, float cell, float degrees) {
  screen grids[3]; /* each ink's is turned further, or the dots would beat */
  for (int k = 0; k < 3; k++) {
    const float angle = (degrees + 30 * (float)k) * 3.14159265f / 180;
    grids[k] = (screen){cell, cosf(angle), sinf(angle)};
  }
  for (int64_t y = 0; y < out.height; y++) {
    for (int64_t x = 0; x < out.width; x++) {
      uint8_t *pixel = out.pixels + (y * out.width + x) * 3;
      for (int k = 0; k < 3; k++) {
        pixel[k] = (uint8_t)(255.5f - 255 * ink_at(&in, &grids[k], (float)y, (float)x, k));
      }
    }
  }
}

static int32_t halftone(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) {
    const opabi_tensor *args = &call->args[s * call->n_args];
    const float cell = *(const float *)args[0].data, angle = *(const float *)args[1].data;
    if (!(cell >= 1 && cell < 1e6f && fabsf(angle) < 1e6f)) {
      return OPABI_FAIL(call, s, OPABI_ERROR_VALUE,
                        "cell: expected 1 pixel or more; angle: degrees");
    }
    halftone_one(open_picture(&call->inputs[s]), open_picture(&call->outputs[s]), cell, angle);
  }
  return OPABI_OK;
}
static const opabi_arg halftone_args[] = {
    {.name = "cell", .doc = "Pixels from dot to dot.", .dtype = OPABI_FLOAT32},
    {.name = "angle", .doc = "Degrees that the dots' rows are turned by.", .dtype = OPABI_FLOAT32}};
OPABI_KERNEL(halftone, "image: uint8[h,w,3] -> uint8[h,w,3]", .n_args = 2, .args = halftone_args,
             .traits = PURE, .doc = "Prints the picture in dots of cyan, magenta and yellow.");

/* ---- Invert: what the table measures --------------------------------------------------------- */

static int32_t invert(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) {
    const uint8_t *x = call->inputs[s].data;
    uint8_t *y = call->outputs[s].data;
    const int64_t n = opabi_numel(&call->inputs[s]);
    for (int64_t i = 0; i < n; i++) y[i] = (uint8_t)(255 - x[i]);
  }
  return OPABI_OK;
}
OPABI_KERNEL(invert, "uint8[...] -> uint8[...]", .traits = PURE, .doc = "255 minus each element.");

OPABI_LIBRARY("demo", "1.0.0", &paint_kernel, &halftone_kernel, &invert_kernel)
