/* A server that costs next to nothing, so that the client is what a benchmark measures.
 *
 * fake_server ERA TEXT_BYTES [COUNTERS]
 *
 * ERA is "modern" or "legacy". It has one tool, "text", whose result is a text of TEXT_BYTES bytes. All requests of one
 * read are answered with one write. At the end of its input it writes what it has counted into the file COUNTERS.
 * fake_server.py beside this file does the same.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_SIZE 65536

typedef struct {
    const char *start;
    size_t size;
} Slice;

typedef struct {
    char *bytes;
    size_t size, capacity;
} Buffer;

static void reserve(Buffer *buffer, size_t more) {
    if (buffer->size + more <= buffer->capacity) return;
    buffer->capacity = 2 * (buffer->size + more);
    buffer->bytes = realloc(buffer->bytes, buffer->capacity);
    if (buffer->bytes == NULL) exit(3);
}

static void append(Buffer *buffer, const char *bytes, size_t size) {
    reserve(buffer, size);
    memcpy(buffer->bytes + buffer->size, bytes, size);
    buffer->size += size;
}

static void append_text(Buffer *buffer, const char *text) { append(buffer, text, strlen(text)); }

static int is(Slice slice, const char *text) {
    return slice.size == strlen(text) && memcmp(slice.start, text, slice.size) == 0;
}

static Slice string_at(const char *quote, const char *end) {
    const char *at = quote + 1;
    while (at < end && *at != '"') at += *at == '\\' ? 2 : 1;
    if (at > end) at = end;
    return (Slice){quote + 1, (size_t)(at - quote - 1)};
}

/* Find the members "id" (as it is written) and "method" of the outermost object. */
static void read_envelope(const char *at, const char *end, Slice *id, Slice *method) {
    Slice key = {NULL, 0}, string;
    int depth = 0, in_value = 0;
    while (at < end) {
        switch (*at) {
        case '"':
            string = string_at(at, end);
            if (depth == 1 && !in_value) key = string;
            if (depth == 1 && in_value && is(key, "method")) *method = string;
            if (depth == 1 && in_value && is(key, "id")) *id = (Slice){at, string.size + 2};
            at = string.start + string.size + 1;
            continue;
        case '{': case '[': depth++; break;
        case '}': case ']': depth--; break;
        case ':': if (depth == 1) in_value = 1; break;
        case ',': if (depth == 1) in_value = 0; break;
        case ' ': case '\t': case '\r': break;
        default:
            if (depth == 1 && in_value && is(key, "id")) {
                const char *start = at;
                while (at < end && strchr(",} \t\r", *at) == NULL) at++;
                *id = (Slice){start, (size_t)(at - start)};
                continue;
            }
        }
        at++;
    }
}

static const char DISCOVERED[] =
    "{\"resultType\":\"complete\",\"supportedVersions\":[\"2026-07-28\"],\"capabilities\":{\"tools\":{}},"
    "\"ttlMs\":0,\"cacheScope\":\"public\"}";
static const char INITIALIZED[] =
    "{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"tools\":{}},"
    "\"serverInfo\":{\"name\":\"fake\",\"version\":\"1\"}}";
static const char TOOLS[] =
    "\"tools\":[{\"name\":\"text\",\"description\":\"Gives a text.\",\"inputSchema\":{\"type\":\"object\"}}]}";
static const char UNKNOWN[] = "{\"code\":-32601,\"message\":\"Method not found\"}";

static int modern;
static Buffer called; /* the result of a call */

static void answer(Buffer *out, Slice id, Slice method) {
    const char *kind = ",\"result\":";
    Slice body;
    if (is(method, "tools/call")) body = (Slice){called.bytes, called.size};
    else if (is(method, "tools/list")) body = (Slice){TOOLS, sizeof TOOLS - 1};
    else if (is(method, "server/discover") && modern) body = (Slice){DISCOVERED, sizeof DISCOVERED - 1};
    else if (is(method, "initialize") && !modern) body = (Slice){INITIALIZED, sizeof INITIALIZED - 1};
    else if (is(method, "ping") && !modern) body = (Slice){"{}", 2};
    else {
        kind = ",\"error\":";
        body = (Slice){UNKNOWN, sizeof UNKNOWN - 1};
    }
    append_text(out, "{\"jsonrpc\":\"2.0\",\"id\":");
    append(out, id.start, id.size);
    append_text(out, kind);
    if (body.start == TOOLS)
        append_text(out, modern ? "{\"resultType\":\"complete\",\"ttlMs\":0,\"cacheScope\":\"public\"," : "{");
    append(out, body.start, body.size);
    append_text(out, "}\n");
}

/* A line break in each 80 bytes, as texts have them. */
static void make_result(size_t text_bytes) {
    append_text(&called, modern ? "{\"resultType\":\"complete\"," : "{");
    append_text(&called, "\"content\":[{\"type\":\"text\",\"text\":\"");
    for (size_t count = 1; count <= text_bytes; count++) append_text(&called, count % 80 ? "x" : "\\n");
    append_text(&called, "\"}]}");
}

static void write_all(const char *bytes, size_t size) {
    while (size > 0) {
        ssize_t count = write(STDOUT_FILENO, bytes, size);
        if (count <= 0) exit(0); /* the client has gone */
        bytes += count;
        size -= (size_t)count;
    }
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    modern = strcmp(argv[1], "modern") == 0;
    make_result(strtoul(argv[2], NULL, 10));

    Buffer in = {0}, out = {0};
    size_t searched = 0;
    unsigned long long reads = 0, requests = 0, received = 0;
    for (;;) {
        reserve(&in, READ_SIZE);
        ssize_t count = read(STDIN_FILENO, in.bytes + in.size, READ_SIZE);
        if (count <= 0) break;
        reads++;
        received += (unsigned long long)count;
        in.size += (size_t)count;

        char *line = in.bytes, *end = in.bytes + in.size, *newline;
        while ((newline = memchr(in.bytes + searched, '\n', (size_t)(end - in.bytes) - searched)) != NULL) {
            Slice id = {NULL, 0}, method = {NULL, 0};
            read_envelope(line, newline, &id, &method);
            if (id.size > 0 && method.size > 0) {
                requests++;
                answer(&out, id, method);
            }
            line = newline + 1;
            searched = (size_t)(line - in.bytes);
        }
        in.size = (size_t)(end - line);
        memmove(in.bytes, line, in.size);
        searched = in.size;
        write_all(out.bytes, out.size);
        out.size = 0;
    }
    if (argc > 3) {
        FILE *file = fopen(argv[3], "w");
        if (file == NULL) return 4;
        fprintf(file, "{\"reads\": %llu, \"requests\": %llu, \"bytes\": %llu}\n", reads, requests, received);
        fclose(file);
    }
    return 0;
}
