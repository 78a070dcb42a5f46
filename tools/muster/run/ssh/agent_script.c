/* agent_script.c - see agent_script.h. Pure; runs on the main thread. */
#include "run/ssh/agent_script.h"

#include <string.h>

bool agent_script_can_set(const char *name) {
    size_t len = strcspn(name, "=");

    for (size_t i = 0; i < len; i++) {
        char c = name[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!letter && (i == 0 || c < '0' || c > '9')) return false;
    }
    return len > 0;
}

static void set_variable(const char *entry, struct msi_buf *text) {
    int len = (int)strcspn(entry, "=");

    msi_buf_add_format(text, "export %.*s=", len, entry);
    text_quote(text, entry + len + 1);
    msi_buf_add_text(text, "\n");
}

/* Each thing that may be missing over there is said in words that need only the host's name in front. */
void agent_script_write(const struct agent_script *script, struct msi_buf *text) {
    msi_buf_add_text(text, "muster_dir=");
    text_quote(text, script->directory);
    msi_buf_add_text(text, "\nmuster_bin=");
    text_quote(text, script->muster);
    msi_buf_add_text(
        text, "\ncd \"$muster_dir\" 2>/dev/null ||"
              " { printf 'cannot change to the directory %s\\n' \"$muster_dir\" >&2; exit 2; }\n"
              "command -v \"$muster_bin\" >/dev/null 2>&1 ||"
              " { printf 'there is no program %s; --remote-muster may name another\\n' \"$muster_bin\" "
              ">&2; exit 2; }\n");
    for (size_t i = 0; script->set[i] != NULL; i++) set_variable(script->set[i], text);
    msi_buf_add_text(text, "printf '\\n" AGENT_MARK "\\n'\nexec \"$muster_bin\"");
    for (size_t i = 0; script->words[i] != NULL; i++) {
        msi_buf_add_text(text, " ");
        text_quote(text, script->words[i]);
    }
    msi_buf_add_text(text, "\n");
}

/* dd takes exactly as many bytes as it is told, and leaves the rest to the agent; a shell may read ahead. */
void agent_script_command(size_t len, struct msi_buf *text) {
    msi_buf_add_format(text, "exec /bin/sh -c 'eval \"$(dd bs=1 count=%zu 2>/dev/null)\"'", len);
}
