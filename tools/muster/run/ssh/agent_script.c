/* agent_script.c - see agent_script.h. */
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

void agent_script_add_export(struct msi_buf *exports, const char *name, const char *value) {
    msi_buf_add_format(exports, "export %.*s=", (int)strcspn(name, "="), name);
    text_quote(exports, value);
    msi_buf_add_text(exports, "\n");
}

void agent_script_add_argument(struct msi_buf *arguments, const char *argument) {
    msi_buf_add_text(arguments, " ");
    text_quote(arguments, argument);
}

/* The launcher prints the last line of stderr behind the host's name. */
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
    msi_buf_add(text, script->exports.p, script->exports.n);
    msi_buf_add_text(text, "printf '\\n" AGENT_MARK "\\n'\nexec \"$muster_bin\"");
    msi_buf_add(text, script->arguments.p, script->arguments.n);
    /* A here-document is in no process list. The last line makes that before it complete. */
    if (script->secret && *script->secret)
        msi_buf_add_format(text, " 3<<'muster-secret'\n%s\nmuster-secret\n:", script->secret);
    msi_buf_add_text(text, "\n");
}

/* dd reads exactly len bytes and leaves the rest to the agent; a shell may read ahead. */
void agent_script_command(size_t len, struct msi_buf *text) {
    msi_buf_add_format(text, "exec /bin/sh -c 'eval \"$(dd bs=1 count=%zu 2>/dev/null)\"'", len);
}
