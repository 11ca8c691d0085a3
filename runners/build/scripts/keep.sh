# Read before a build's command: puts a wrapper before each compiler, which keeps what a program is linked from.
# $artifacts: the file names of the programs; $wrapper: the text of wrapper.sh.
mkdir -p .layouts/bin .layouts/kept
for compiler in cc gcc c++ g++ clang clang++ $CC $CXX; do
    case $compiler in */* | -*) continue ;; esac
    if real=$(command -v "$compiler"); then
        {
            # Without the wrappers on its path, as ccache would search it for the compiler and find them.
            printf '#!/bin/sh\nPATH="%s" name=%s real="%s" kept="%s" artifacts="%s"\n' \
                "$PATH" "$compiler" "$real" "$PWD/.layouts/kept" "$artifacts"
            printf '%s\n' "$wrapper"
        } >".layouts/bin/$compiler"
        chmod 755 ".layouts/bin/$compiler"
    fi
done
PATH=$PWD/.layouts/bin:$PATH
