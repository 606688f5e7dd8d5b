// shardproof_trace.h: the Shardproof trace of a C or C++ program, MPI or not: copy this file beside
// yours (C99 or C++, POSIX; include it first). Where SHARDPROOF_TRACE is not set, every call
// returns at once.
//
//   shardproof_trace trace;
//   shardproof_trace_open(&trace, rank, world);  // -1, -1: as mpirun or srun say
//   shardproof_trace_run(&trace, "\"coords\":{\"dp\":1},\"data\":{\"size\":640}");  // members, or
//   "" shardproof_trace_at(&trace, step, "forward");  // on entering forward, backward, reduced,
//                                                  // clipped, optimizer; save: the step just done
//   shardproof_trace_tensors(&trace, step, "grad", tensors, count);  // reduced, before clipping
//   shardproof_trace_tensors(&trace, step, "param", ...), "moment" (NAME/exp_avg): behind the step,
//                                                  // and "param" of the step before the first
//   shardproof_trace_step(&trace, step, loss, grad_norm, lr, tokens, samples, count);
//   shardproof_trace_checkpoint(&trace, next_step, path, 0), and behind the save with 1
//   shardproof_trace_end(&trace, next_step);
//
// loss and grad_norm are the whole batch's on every rank, tokens and samples the rank's own. All
// return 0, or -1 after a line on stderr: a file that cannot be written. Thread rule: one thread.
#pragma once

#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include <errno.h>
#include <fcntl.h>
#include <regex.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef struct {
  int on, rank, world, file, has_match;
  const char* folder;
  regex_t match;
} shardproof_trace;

// A tensor of which this rank holds a box, or all of it (offsets and global_shape null).
typedef struct {
  const char* name;   // the same on every rank and layout
  const char* dtype;  // F32, F64, BF16, F16, as safetensors has it
  const void* data;   // row-major
  int dims;
  const int64_t* shape;
  const int64_t* offsets;
  const int64_t* global_shape;
} shardproof_tensor;

// Text that grows; `failed` where memory ran out.
typedef struct {
  char* text;
  size_t size, room;
  int failed;
} shardproof_text;

static inline void shardproof_add(shardproof_text* out, const char* format, ...) {
  va_list given, again;
  int size;
  va_start(given, format);
  va_copy(again, given);
  size = vsnprintf(NULL, 0, format, given);
  if (size >= 0 && out->size + (size_t)size + 1 > out->room) {
    const size_t room = 2 * (out->size + (size_t)size + 1);
    char* larger = (char*)realloc(out->text, room);
    if (larger == NULL) {
      out->failed = 1;
    } else {
      out->text = larger;
      out->room = room;
    }
  }
  if (size >= 0 && !out->failed) {
    vsnprintf(out->text + out->size, out->room - out->size, format, again);
    out->size += (size_t)size;
  }
  va_end(again);
  va_end(given);
}

static inline void shardproof_add_quoted(shardproof_text* out, const char* text) {
  shardproof_add(out, "\"");
  for (; *text != '\0'; ++text) {
    if (*text == '"' || *text == '\\') {
      shardproof_add(out, "\\%c", *text);
    } else if ((unsigned char)*text < 0x20) {
      shardproof_add(out, "\\u%04x", (unsigned)(unsigned char)*text);
    } else {
      shardproof_add(out, "%c", *text);
    }
  }
  shardproof_add(out, "\"");
}

static inline void shardproof_add_list(shardproof_text* out, const int64_t* values, int64_t count) {
  int64_t i;
  shardproof_add(out, "[");
  for (i = 0; i < count; ++i) {
    shardproof_add(out, i == 0 ? "%lld" : ",%lld", values == NULL ? 0 : (long long)values[i]);
  }
  shardproof_add(out, "]");
}

// A float is its bits, big-endian; the number beside it is for people, and absent where JSON has
// none for it.
static inline void shardproof_add_float(shardproof_text* out, const char* key, double value) {
  char number[40];
  uint64_t bits;
  char* comma;
  memcpy(&bits, &value, sizeof bits);
  shardproof_add(out, ",\"%s_bits\":\"%016llx\"", key, (unsigned long long)bits);
  if (!(value - value == 0)) return;
  snprintf(number, sizeof number, "%.17g", value);
  comma = strchr(number, ',');  // of a locale
  if (comma != NULL) *comma = '.';
  shardproof_add(out, ",\"%s\":%s", key, number);
}

static inline int shardproof_failed(const char* path, const char* what) {
  fprintf(stderr, "shardproof_trace: %s: %s: %s\n", path, what, strerror(errno));
  return -1;
}

static inline int shardproof_write(int file, const void* data, size_t size, const char* path) {
  const char* at = (const char*)data;
  while (size > 0) {
    const ssize_t done = write(file, at, size);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return shardproof_failed(path, "write");
    at += done;
    size -= (size_t)done;
  }
  return 0;
}

// Writes the line, which one write(2) appends whole, and frees it.
static inline int shardproof_put(shardproof_trace* trace, shardproof_text* line) {
  int result = -1;
  shardproof_add(line, "}\n");
  if (line->failed) {
    fprintf(stderr, "shardproof_trace: %s: out of memory\n", trace->folder);
  } else {
    result = shardproof_write(trace->file, line->text, line->size, trace->folder);
  }
  free(line->text);
  return result;
}

static inline shardproof_text shardproof_line(const char* kind) {
  shardproof_text line = {NULL, 0, 0, 0};
  shardproof_add(&line, "{\"kind\":\"%s\"", kind);
  return line;
}

static inline int shardproof_seat(const char* const names[4]) {
  int i;
  for (i = 0; i < 4; ++i) {
    const char* value = getenv(names[i]);
    if (value != NULL) return atoi(value);
  }
  return -1;
}

static inline int shardproof_trace_open(shardproof_trace* trace, int rank, int world) {
  static const char* const ranks[4] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};
  static const char* const worlds[4] = {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                        "SLURM_NTASKS"};
  shardproof_text path = {NULL, 0, 0, 0};
  const char* match = getenv("SHARDPROOF_MATCH");
  memset(trace, 0, sizeof *trace);
  trace->folder = getenv("SHARDPROOF_TRACE");
  if (trace->folder == NULL || *trace->folder == '\0') return 0;
  trace->rank = rank >= 0 ? rank : shardproof_seat(ranks);
  trace->world = world > 0 ? world : shardproof_seat(worlds);
  if (trace->rank < 0) trace->rank = 0;
  if (trace->world < 1) trace->world = 1;
  if (match != NULL && *match != '\0') {
    if (regcomp(&trace->match, match, REG_EXTENDED | REG_NOSUB) != 0) {
      fprintf(stderr, "shardproof_trace: SHARDPROOF_MATCH: \"%s\" is no regular expression\n",
              match);
      return -1;
    }
    trace->has_match = 1;
  }
  if (mkdir(trace->folder, 0777) != 0 && errno != EEXIST) {
    return shardproof_failed(trace->folder, "mkdir");
  }
  shardproof_add(&path, "%s/rank_%05d.jsonl", trace->folder, trace->rank);
  if (path.failed) return -1;
  trace->file = open(path.text, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  trace->on = trace->file >= 0;
  if (!trace->on) shardproof_failed(path.text, "open");
  free(path.text);
  return trace->on ? 0 : -1;
}

// FNV-1a of the running program: says whether two runs are of the same one.
static inline uint64_t shardproof_code(void) {
  uint64_t digest = 14695981039346656037u;
  FILE* file = fopen("/proc/self/exe", "rb");
  int byte;
  if (file == NULL) return 0;
  while ((byte = getc(file)) != EOF) digest = (digest ^ (uint64_t)byte) * 1099511628211u;
  fclose(file);
  return digest;
}

// `facts`: further JSON members, or "".
static inline int shardproof_trace_run(shardproof_trace* trace, const char* facts) {
  shardproof_text line;
  if (!trace->on) return 0;
  line = shardproof_line("run");
  shardproof_add(&line, ",\"schema\":1,\"rank\":%d,\"world\":%d,\"pid\":%ld", trace->rank,
                 trace->world, (long)getpid());
  shardproof_add(&line, ",\"code\":\"fnv1a:%016llx\"", (unsigned long long)shardproof_code());
  if (*facts != '\0') shardproof_add(&line, ",%s", facts);
  return shardproof_put(trace, &line);
}

// SHARDPROOF_FAULT=rank:step:phase:kill|stop|delay=SECONDS, where it is this place.
static inline void shardproof_fault(const shardproof_trace* trace, int64_t step,
                                    const char* phase) {
  const char* fault = getenv("SHARDPROOF_FAULT");
  char place[80];
  const int size =
      snprintf(place, sizeof place, "%d:%lld:%s:", trace->rank, (long long)step, phase);
  if (fault == NULL || size >= (int)sizeof place || strncmp(fault, place, (size_t)size) != 0)
    return;
  fault += size;
  if (strcmp(fault, "kill") == 0) kill(getpid(), SIGKILL);
  if (strcmp(fault, "stop") == 0) raise(SIGSTOP);
  if (strncmp(fault, "delay=", 6) == 0) {
    const double seconds = atof(fault + 6);
    struct timespec left;
    left.tv_sec = (time_t)seconds;
    left.tv_nsec = (long)((seconds - (double)left.tv_sec) * 1e9);
    while (nanosleep(&left, &left) != 0 && errno == EINTR) continue;
  }
}

static inline int shardproof_trace_at(shardproof_trace* trace, int64_t step, const char* phase) {
  shardproof_text line;
  int result;
  if (!trace->on) return 0;
  line = shardproof_line("at");
  shardproof_add(&line, ",\"step\":%lld,\"phase\":\"%s\"", (long long)step, phase);
  result = shardproof_put(trace, &line);
  shardproof_fault(trace, step, phase);
  return result;
}

static inline int shardproof_trace_step(shardproof_trace* trace, int64_t step, double loss,
                                        double grad_norm, double lr, int64_t tokens,
                                        const int64_t* samples, int64_t count) {
  shardproof_text line;
  if (!trace->on) return 0;
  line = shardproof_line("step");
  shardproof_add(&line, ",\"step\":%lld", (long long)step);
  shardproof_add_float(&line, "loss", loss);
  shardproof_add_float(&line, "grad_norm", grad_norm);
  shardproof_add_float(&line, "lr", lr);
  shardproof_add(&line, ",\"tokens\":%lld,\"skipped\":false,\"samples\":", (long long)tokens);
  shardproof_add_list(&line, samples, count);
  return shardproof_put(trace, &line);
}

static inline int shardproof_trace_checkpoint(shardproof_trace* trace, int64_t next_step,
                                              const char* path, int done) {
  shardproof_text line;
  if (!trace->on) return 0;
  line = shardproof_line("checkpoint");
  shardproof_add(&line, ",\"step\":%lld,\"state\":\"%s\",\"path\":", (long long)next_step,
                 done ? "done" : "begun");
  shardproof_add_quoted(&line, path);
  return shardproof_put(trace, &line);
}

static inline int shardproof_trace_end(shardproof_trace* trace, int64_t next_step) {
  shardproof_text line;
  int result;
  if (!trace->on) return 0;
  line = shardproof_line("end");
  shardproof_add(&line, ",\"step\":%lld", (long long)next_step);
  result = shardproof_put(trace, &line);
  if (trace->has_match) regfree(&trace->match);
  close(trace->file);
  trace->on = 0;
  return result;
}

// Whether SHARDPROOF_TENSORS (steps, or all) names the step.
static inline int shardproof_trace_wants(const shardproof_trace* trace, int64_t step) {
  const char* at = trace->on ? getenv("SHARDPROOF_TENSORS") : NULL;
  if (at == NULL || *at == '\0') return 0;
  if (strcmp(at, "all") == 0) return 1;
  for (; at != NULL; at = strchr(at, ',')) {
    at += *at == ',';
    if (strtoll(at, NULL, 10) == step) return 1;
  }
  return 0;
}

static inline size_t shardproof_bytes(const shardproof_tensor* tensor) {
  const int wide = strcmp(tensor->dtype, "F64") == 0 || strcmp(tensor->dtype, "I64") == 0;
  const int half = strcmp(tensor->dtype, "BF16") == 0 || strcmp(tensor->dtype, "F16") == 0;
  size_t bytes = wide ? 8 : half ? 2 : 4;
  int i;
  for (i = 0; i < tensor->dims; ++i) bytes *= (size_t)tensor->shape[i];
  return bytes;
}

static inline int shardproof_matches(const shardproof_trace* trace,
                                     const shardproof_tensor* tensor) {
  if (shardproof_bytes(tensor) == 0) return 0;  // no part of it is here
  return !trace->has_match || regexec(&trace->match, tensor->name, 0, NULL, 0) == 0;
}

// The head of a safetensors file: a length of 8 bytes and as much JSON.
static inline shardproof_text shardproof_head(const shardproof_trace* trace,
                                              const shardproof_tensor* tensors, int count) {
  shardproof_text head = {NULL, 0, 0, 0}, places = {NULL, 0, 0, 0};
  size_t end = 0;
  int i, first = 1;
  shardproof_add(&head, "{");
  shardproof_add(&places, "{");
  for (i = 0; i < count; ++i) {
    const shardproof_tensor* each = &tensors[i];
    const size_t begin = end;
    if (!shardproof_matches(trace, each)) continue;
    end += shardproof_bytes(each);
    shardproof_add_quoted(&head, each->name);
    shardproof_add(&head, ":{\"dtype\":\"%s\",\"data_offsets\":[%llu,%llu],\"shape\":", each->dtype,
                   (unsigned long long)begin, (unsigned long long)end);
    shardproof_add_list(&head, each->shape, each->dims);
    shardproof_add(&head, "},");
    shardproof_add(&places, first ? "" : ",");
    shardproof_add_quoted(&places, each->name);
    shardproof_add(&places, ":{\"saved_offsets\":");
    shardproof_add_list(&places, each->offsets, each->dims);
    shardproof_add(&places, ",\"global_shape\":");
    shardproof_add_list(&places, each->offsets == NULL ? each->shape : each->global_shape,
                        each->dims);
    shardproof_add(&places, "}");
    first = 0;
  }
  shardproof_add(&places, "}");
  shardproof_add(&head, "\"__metadata__\":{\"DCP_SHARDING_INFO\":");
  if (!places.failed) shardproof_add_quoted(&head, places.text);
  shardproof_add(&head, "}}");
  while (!head.failed && head.size % 8 != 0) shardproof_add(&head, " ");
  head.failed |= places.failed;
  free(places.text);
  return head;
}

static inline int shardproof_trace_tensors(shardproof_trace* trace, int64_t step, const char* what,
                                           const shardproof_tensor* tensors, int count) {
  shardproof_text path = {NULL, 0, 0, 0}, draft = {NULL, 0, 0, 0}, head;
  unsigned char length[8];
  int i, file = -1, result = -1;
  if (!shardproof_trace_wants(trace, step)) return 0;
  shardproof_add(&path, "%s/step_%06lld.%s.rank_%05d.safetensors", trace->folder, (long long)step,
                 what, trace->rank);
  if (!path.failed) shardproof_add(&draft, "%s.draft", path.text);
  head = shardproof_head(trace, tensors, count);
  for (i = 0; i < 8; ++i) length[i] = (unsigned char)((uint64_t)head.size >> (8 * i));
  if (path.failed || draft.failed || head.failed) {
    fprintf(stderr, "shardproof_trace: %s: out of memory\n", trace->folder);
  } else if ((file = open(draft.text, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) < 0) {
    shardproof_failed(draft.text, "open");
  } else {
    result = shardproof_write(file, length, sizeof length, draft.text);
    if (result == 0) result = shardproof_write(file, head.text, head.size, draft.text);
    for (i = 0; i < count && result == 0; ++i) {
      if (!shardproof_matches(trace, &tensors[i])) continue;
      result = shardproof_write(file, tensors[i].data, shardproof_bytes(&tensors[i]), draft.text);
    }
    if (close(file) != 0 && result == 0) result = shardproof_failed(draft.text, "close");
    if (result == 0 && rename(draft.text, path.text) != 0) {
      result = shardproof_failed(path.text, "rename");
    }
  }
  free(head.text);
  free(draft.text);
  free(path.text);
  return result;
}
