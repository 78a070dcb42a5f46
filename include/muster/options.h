/*
 * options.h - the macros for calls with named options.
 *
 * A call such as mst_store_set(store, "k", "v", 1, .timeout_ms = 500) is a macro over the function
 * mst_store_set_with(store, key, value, len, options). The options are a struct in which zero stands for the
 * default of each field. The macro sets its size and the caller's file, line and function. Bindings for other
 * languages use the _with functions and may pass NULL for the options.
 *
 * C11: all arguments initialize one struct, the positional ones first. So compound literals may be arguments:
 * mst_new_group((int[]){0, 1}, 2, &group).
 * C++20: the syntax is the same. The named options must be in the order in which their struct declares them.
 */
#ifndef MUSTER_OPTIONS_H
#define MUSTER_OPTIONS_H

#include <muster/status.h>
#include <stddef.h>

#define MST_FIRST(first, ...) first
#define MST_REST(first, ...)  __VA_ARGS__

/*
 * The first fields of every options struct. A positional argument too many initializes the first one: the
 * compiler warns, and the call returns MST_ERR_INVALID.
 */
#define MST_OPTIONS_HEAD                                                                                     \
    MST_OPTION(const struct mst_options_must_be_named *positional);                                          \
    MST_OPTION(size_t size);                                                                                 \
    MST_OPTION(mst_site site);

/* The value of .positional in a call with too few arguments. */
#define MST_ARGUMENT_IS_MISSING ((const struct mst_options_must_be_named *)-1)

#ifdef __cplusplus

/* A field of an options struct, with its default. */
#define MST_OPTION(field) field = {}

template <class Options> const Options *mst_options(const Options &options) {
    return &options;
}
template <class T> void **mst_pointer_address(T **pointer) {
    return reinterpret_cast<void **>(pointer);
}
#define MST_POINTER_ADDRESS(pointer) mst_pointer_address(pointer)
#define MST_HERE                                                                                             \
    mst_site {                                                                                               \
        __FILE__, __func__, __LINE__                                                                         \
    }
#define MST_OPTIONS(type, ...) mst_options<type>({.size = sizeof(type), .site = MST_HERE, __VA_ARGS__})

/* The last positional argument, and the options. */
#define MST_LAST(type, ...) MST_FIRST(__VA_ARGS__, ), MST_OPTIONS(type, MST_REST(__VA_ARGS__, ))

/* MST_CALL_n: a call with n positional arguments. */
#define MST_CALL_0(name, type, ...)             name##_with(MST_OPTIONS(type, __VA_ARGS__))
#define MST_CALL_1(name, type, ...)             name##_with(MST_LAST(type, __VA_ARGS__))
#define MST_CALL_2(name, type, a, ...)          name##_with(a, MST_LAST(type, __VA_ARGS__))
#define MST_CALL_3(name, type, a, b, ...)       name##_with(a, b, MST_LAST(type, __VA_ARGS__))
#define MST_CALL_4(name, type, a, b, c, ...)    name##_with(a, b, c, MST_LAST(type, __VA_ARGS__))
#define MST_CALL_5(name, type, a, b, c, d, ...) name##_with(a, b, c, d, MST_LAST(type, __VA_ARGS__))
#define MST_CALL_7(name, type, a, b, c, d, e, f, ...)                                                        \
    name##_with(a, b, c, d, e, f, MST_LAST(type, __VA_ARGS__))

#define MST_WRAP_0(name, type)
#define MST_WRAP_1(...)
#define MST_WRAP_2(...)
#define MST_WRAP_3(...)
#define MST_WRAP_4(...)
#define MST_WRAP_5(...)
#define MST_WRAP_7(...)

#else

#define MST_OPTION(field)            field

/* Fails to compile unless it is the address of a pointer. */
#define MST_POINTER_ADDRESS(pointer) ((void)sizeof(*(pointer) == (void *)0), (void **)(void *)(pointer))
#define MST_HERE                     ((mst_site){__FILE__, __func__, __LINE__})
#define MST_OPTIONS(type, ...)       (&(type){.size = sizeof(type), .site = MST_HERE, __VA_ARGS__})

/*
 * MST_CALL_n: a call with n positional arguments. A missing one would be initialized with 0. So the macros
 * look at the text of the arguments: the last positional argument is missing if its place is empty or has a
 * named option. The compiler examines the text, except where an argument has braces.
 */
#define MST_CALL_0(name, type, ...)  MST_CALL(name, type, 1, __VA_ARGS__)
#define MST_CALL_1(name, type, ...)  MST_CALL(name, type, MST_ARE_GIVEN(1, "", #__VA_ARGS__), __VA_ARGS__)
#define MST_CALL_2(name, type, a, ...)                                                                       \
    MST_CALL(name, type, MST_ARE_GIVEN(2, #a ",", #__VA_ARGS__), a, __VA_ARGS__)
#define MST_CALL_3(name, type, a, b, ...)                                                                    \
    MST_CALL(name, type, MST_ARE_GIVEN(3, #a "," #b ",", #__VA_ARGS__), a, b, __VA_ARGS__)
#define MST_CALL_4(name, type, a, b, c, ...)                                                                 \
    MST_CALL(name, type, MST_ARE_GIVEN(4, #a "," #b "," #c ",", #__VA_ARGS__), a, b, c, __VA_ARGS__)
#define MST_CALL_5(name, type, a, b, c, d, ...)                                                              \
    MST_CALL(name, type, MST_ARE_GIVEN(5, #a "," #b "," #c "," #d ",", #__VA_ARGS__), a, b, c, d, __VA_ARGS__)
#define MST_CALL_7(name, type, a, b, c, d, e, f, ...)                                                        \
    MST_CALL(name, type, MST_ARE_GIVEN(7, #a "," #b "," #c "," #d "," #e "," #f ",", #__VA_ARGS__), a, b, c, \
             d, e, f, __VA_ARGS__)
#define MST_CALL(name, type, given, ...)                                                                     \
    name##_args(&(struct name##_args){.size = sizeof(type), .site = MST_HERE, .before = 0, __VA_ARGS__},     \
                given)
#define MST_ARE_GIVEN(n, first, last)                                                                        \
    (__builtin_strchr(first, '{') ? mst_count_positional(first last) >= (n) : (last)[0] && (last)[0] != '.')
/* Counts the arguments in the text of a call that come before the first named one. */
int mst_count_positional(const char *text);

/* MST_WRAP_n: the struct of all arguments of a call, and the function that passes them on. */
#define MST_WRAP(name, type, members, ...)                                                                   \
    struct name##_args {                                                                                     \
        char before;                                                                                         \
        members union {                                                                                      \
            struct {                                                                                         \
                type##_fields                                                                                \
            };                                                                                               \
            type options;                                                                                    \
        };                                                                                                   \
    };                                                                                                       \
    static inline mst_status name##_args(struct name##_args *a, int given) {                                 \
        if (!given) a->positional = MST_ARGUMENT_IS_MISSING;                                                 \
        return name##_with(__VA_ARGS__);                                                                     \
    }
#define MST_WRAP_0(name, type)       MST_WRAP(name, type, , &a->options)
#define MST_WRAP_1(name, type, A)    MST_WRAP(name, type, A arg1;, a->arg1, &a->options)
#define MST_WRAP_2(name, type, A, B) MST_WRAP(name, type, A arg1; B arg2;, a->arg1, a->arg2, &a->options)
#define MST_WRAP_3(name, type, A, B, C)                                                                      \
    MST_WRAP(name, type, A arg1; B arg2; C arg3;, a->arg1, a->arg2, a->arg3, &a->options)
#define MST_WRAP_4(name, type, A, B, C, D)                                                                   \
    MST_WRAP(name, type, A arg1; B arg2; C arg3; D arg4;, a->arg1, a->arg2, a->arg3, a->arg4, &a->options)
#define MST_WRAP_5(name, type, A, B, C, D, E)                                                                \
    MST_WRAP(name, type, A arg1; B arg2; C arg3; D arg4; E arg5;                                             \
             , a->arg1, a->arg2, a->arg3, a->arg4, a->arg5, &a->options)
#define MST_WRAP_7(name, type, A, B, C, D, E, F, G)                                                          \
    MST_WRAP(name, type, A arg1; B arg2; C arg3; D arg4; E arg5; F arg6; G arg7;                             \
             , a->arg1, a->arg2, a->arg3, a->arg4, a->arg5, a->arg6, a->arg7, &a->options)

#endif
#endif
