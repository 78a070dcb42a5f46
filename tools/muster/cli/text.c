/* text.c - quoting for shells and cleaning for terminals. See text.h. */
#include "cli/text.h"

/* Between single quotes only the quote itself is special; it becomes '\'': 'it'\''s'. */
void text_quote(struct msi_buf *to, const char *argument) {
    msi_buf_add_u8(to, '\'');
    for (size_t plain; argument[plain = strcspn(argument, "'")]; argument += plain + 1) {
        msi_buf_add(to, argument, plain);
        msi_buf_add_text(to, "'\\''");
    }
    msi_buf_add_text(to, argument);
    msi_buf_add_u8(to, '\'');
}

/* In UTF-8, U+0080 to U+009F are C2 80 to C2 9F; terminals obey them as they obey ESC. */
void text_clean(char *text, bool keep_newlines) {
    for (unsigned char *c = (unsigned char *)text; *c; c++) {
        bool kept = keep_newlines && (*c == '\n' || *c == '\t');
        if (*c == 0xc2 && c[1] >= 0x80 && c[1] <= 0x9f)
            c[0] = c[1] = '?';
        else if ((*c < ' ' && !kept) || *c == 0x7f)
            *c = '?';
    }
}
